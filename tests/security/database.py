"""Searches a whole database, whatever its tables are."""

from tests.inprocess.server import Server


async def tables(server: Server) -> list[str]:
    found = await server.sql("select tablename from pg_tables where schemaname = 'public' order by 1")
    return [row["tablename"] for row in found]


async def places(server: Server, *needles: str) -> set[str]:
    """The tables that hold one of the texts, in any column, also as bytes."""
    found: set[str] = set()
    for table in await tables(server):
        for needle in needles:
            like, as_hex = f"%{needle}%", f"%{needle.encode().hex()}%"
            query = f'select exists(select from "{table}" t where t::text like $1 or t::text like $2)'
            if (await server.sql(query, like, as_hex))[0][0]:
                found.add(table)
    return found

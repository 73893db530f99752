"""The headers of the request that began a run.

Revision: 8d3c5b1e9a42, after f39f7f09078f. Migrations only add: old code must run on the new schema.
"""

import sqlalchemy as sa
from alembic import op

revision = "8d3c5b1e9a42"
down_revision = "f39f7f09078f"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run", sa.Column("headers", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.drop_column("run", "headers")

"""From declared parameters to a JSON schema and back: what a model may send a tool, and how it is read.

A tool's parameters are declared as a typed signature, a pydantic model or a JSON schema. All three become an
``InputShape``: the schema the model is shown, ``check`` (any JSON value → the validated input with its
defaults, plain JSON again, as it is stored) and ``arguments`` (a stored input → the Python arguments of the
function).

Refusals (``InvalidInput``) are written for the model: the path and what was expected there, never the value
that stood there.
"""

import inspect
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema

from app.agent.plain import MAX_DEPTH, plain

_SHOWN_ERRORS = 5
_SHOWN_CHARACTERS = 200
# Messages of these kinds are made by a validator's own code or quote the value.
_QUOTING = frozenset({"value_error", "assertion_error", "union_tag_invalid"})
# Parameters are fields under another name, so that one called ``json`` or ``copy`` does not shadow a method
# of the model.
_FIELD = "parameter_"


class InvalidInput(Exception):
    """Arguments that a tool's schema refuses. ``str()`` is safe to show: paths and expectations, no
    values."""


@dataclass(frozen=True, slots=True)
class InputShape:
    """``check`` raises ``InvalidInput``; ``arguments`` does too, for a stored input that no longer fits the
    declaration."""

    schema: Mapping[str, Any]
    check: Callable[[Any], dict[str, Any]]
    arguments: Callable[[dict[str, Any]], dict[str, Any]]


class _Untitled(GenerateJsonSchema):
    """Titles only repeat the names, and the model pays for each."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def parsed(raw: object) -> Any:
    """``raw`` as finite, not too deep JSON; an unparsed text is parsed; nothing at all is an empty object."""
    if isinstance(raw, str):
        if not raw.strip():
            return {}
        try:
            raw = json.loads(raw, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise InvalidInput("The arguments are not valid JSON.") from None
    if raw is None:
        return {}
    _refuse_unusual(raw, MAX_DEPTH)
    return plain(raw)


def from_model(model: type[BaseModel]) -> InputShape:
    """The shape of a pydantic model's fields."""
    schema = model.model_json_schema(schema_generator=_Untitled)
    schema.pop("title", None)
    schema.setdefault("properties", {})

    def validated(raw: Any) -> BaseModel:
        try:
            return model.model_validate_json(json.dumps(raw))
        except ValidationError as error:
            raise refusal(error) from None

    def check(raw: Any) -> dict[str, Any]:
        return plain(validated(raw).model_dump(mode="json", by_alias=True, round_trip=True))

    def arguments(stored: dict[str, Any]) -> dict[str, Any]:
        made = validated(stored)
        return {name.removeprefix(_FIELD): getattr(made, name) for name in model.model_fields}

    return InputShape(schema, check, arguments)


def from_signature(
    function: Callable[..., Any], *, injected: type | None = None
) -> tuple[InputShape, str | None]:
    """The shape of a function's parameters, and the name of the one annotated with ``injected`` (not in the
    schema), if any.

    Raises ``TypeError`` for a parameter that no JSON object can fill: unannotated, positional only, ``*`` or
    ``**``."""
    name = getattr(function, "__name__", type(function).__name__)
    target = function if inspect.isroutine(function) else getattr(function, "func", type(function).__call__)
    try:
        hints = get_type_hints(target, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{name}: the annotation {error.name!r} cannot be resolved; define it at module level"
        ) from error
    documented = _documented_parameters(inspect.getdoc(function) or "")
    context_name: str | None = None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{name}: parameter {parameter.name!r} cannot be filled by name")
        if parameter.name not in hints:
            raise TypeError(f"{name}: parameter {parameter.name!r} needs a type")
        annotation = hints[parameter.name]
        if injected is not None and annotation is injected:
            context_name = parameter.name
            continue
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        described = Field(alias=parameter.name, description=documented.get(parameter.name))
        fields[_FIELD + parameter.name] = (Annotated[annotation, described], default)
    model = create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields)
    return from_model(model), context_name


def from_schema(schema: Mapping[str, Any]) -> InputShape:
    """The shape of a JSON schema (draft 2020-12) of an object. Raises ``ValueError`` for any other.

    References are resolved inside the schema only: nothing is ever fetched."""
    if schema.get("type") != "object":
        raise ValueError('an input schema is of "type": "object"')
    kept: dict[str, Any] = {"properties": {}, **schema}
    refuse = schema_check(kept)

    def check(raw: Any) -> dict[str, Any]:
        value = _with_defaults(kept, raw)
        refuse(value)
        return value

    return InputShape(kept, check, lambda stored: stored)


def schema_check(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """A function that raises ``InvalidInput`` for a value that the JSON schema refuses. ``ValueError`` for a
    bad schema."""
    from jsonschema import Draft202012Validator, SchemaError  # slow to import, and seldom needed
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"not a JSON schema: {error.message}") from error
    validator: Any = Draft202012Validator(schema, registry=Registry())

    def refuse(value: Any) -> None:
        try:
            errors = [(list(e.absolute_path), _expectation(e)) for e in validator.iter_errors(value)]
        except (Unresolvable, RecursionError) as error:
            raise ValueError("the schema cannot be applied") from error
        if errors:
            raise InvalidInput(_described(errors))

    return refuse


def _with_defaults(schema: Mapping[str, Any], value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    given = cast("dict[str, Any]", value)
    properties: Mapping[str, Any] = schema.get("properties", {})
    filled = dict(given)
    for name, inner in properties.items():
        if not isinstance(inner, Mapping):
            continue  # ``true`` and ``false`` are schemas too
        declared = cast("Mapping[str, Any]", inner)
        if name in filled:
            filled[name] = _with_defaults(declared, filled[name])
        elif "default" in declared:
            filled[name] = declared["default"]
    return filled


def _refuse_constant(_: str) -> None:
    raise ValueError("not a finite number")


def _refuse_unusual(value: object, depth: int) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput("Every number must be finite.")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise InvalidInput("Every integer must fit into 64 bits.")
    if isinstance(value, dict | list) and depth == 0:
        raise InvalidInput(f"The arguments are nested deeper than {MAX_DEPTH}.")
    if isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            _refuse_unusual(item, depth - 1)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            _refuse_unusual(item, depth - 1)


def refusal(error: ValidationError) -> InvalidInput:
    """pydantic's refusal of arguments, without the values."""
    return InvalidInput(_described(_pydantic_errors(error)))


def _pydantic_errors(error: ValidationError) -> list[tuple[list[str | int], str]]:
    errors: list[tuple[list[str | int], str]] = []
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        expected = "Not valid" if one["type"] in _QUOTING else one["msg"]
        errors.append((list(one["loc"]), expected))
    return errors


def _expectation(error: Any) -> str:
    keyword, wanted = error.validator, error.validator_value
    if keyword == "required":
        return "Missing: " + ", ".join(str(name) for name in wanted if name not in error.instance)
    if keyword == "additionalProperties" and wanted is False:
        return "Unknown properties are not allowed"
    if isinstance(wanted, str | int | float) or keyword in ("enum", "type", "const"):
        return f"Expected {keyword}: {json.dumps(wanted, ensure_ascii=False)}"
    return f"Does not satisfy {keyword}"


def _described(errors: Iterable[tuple[list[str | int], str]]) -> str:
    lines: list[str] = []
    for path, expected in errors:
        where = ".".join(str(step) for step in path)
        line = f"{where}: {expected}" if where else expected
        line = "".join(character if character.isprintable() else " " for character in line)
        lines.append(line[:_SHOWN_CHARACTERS])
    more = len(lines) - _SHOWN_ERRORS
    return "; ".join(lines[:_SHOWN_ERRORS]) + (f"; and {more} more" if more > 0 else "")


def summary_of(docstring: str) -> str:
    """A docstring up to its first section (``Args:`` and the like): what the model is told about a tool."""
    return re.split(
        r"\n\s*(?:Args|Arguments|Parameters|Returns|Raises|Yields|Examples?):?\s*\n", docstring, maxsplit=1
    )[0].strip()


def _documented_parameters(docstring: str) -> dict[str, str]:
    """``name: text`` lines of a Google style ``Args:`` section."""
    section = re.search(r"(?:^|\n)\s*(?:Args|Arguments):\s*\n((?:[ \t]+.*\n?|\n)+)", docstring)
    lines = (
        re.findall(r"^[ \t]+(\w+)(?:\s*\([^)]*\))?:[ \t]*(.+)$", section.group(1), re.MULTILINE)
        if section
        else []
    )
    return dict(lines)

"""From any exception of a use case to the one typed error it is answered with."""

from app.errors import Code, ServiceError
from app.store.faults import Fault, classify


def as_service_error(error: Exception, *, committed: bool) -> ServiceError:
    """``committed``: the request's own user message or one of its answers is stored. The original becomes the ``__cause__``."""
    if isinstance(error, ServiceError):
        error.committed = error.committed or committed
        return error
    match classify(error):
        case Fault.CONFLICT:
            typed = ServiceError(Code.STATE_CONCURRENCY_CONFLICT, committed=committed)
        case Fault.PERMANENT:
            typed = ServiceError(Code.FRAMEWORK_INTERNAL_ERROR, committed=committed, permanent=True)
        case _:
            typed = ServiceError(Code.FRAMEWORK_INTERNAL_ERROR, committed=committed)
    typed.__cause__ = error
    return typed

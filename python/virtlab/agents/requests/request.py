"""A request to an agent: its name and fields are those on the wire, and its type says what the reply holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar, cast, get_args

from virtlab.agents.replies import checked

Anything = dict[str, Any]  # a reply of any shape
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Fields:
    """What is sent as an object of JSON whose keys are the fields; one that is None is left out."""

    def wire(self) -> dict[str, Any]:
        """As it is sent."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Request(Fields, Generic[R_co]):
    """One that is answered by an `R_co`."""

    do: ClassVar[str]

    def read(self, reply: Mapping[str, Any]) -> R_co:
        """The reply, checked. ValueError with one line that says where it has another shape."""
        (shape,) = get_args(type(self).__orig_bases__[0])  # type: ignore[attr-defined]
        return cast("R_co", checked(self.do, shape, reply))

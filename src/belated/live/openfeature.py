"""`Provider`: live experiments as flags of OpenFeature. The flag is the experiment, the variant the arm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TypeVar

from belated.base.errors import BelatedError, MissingLibraryError
from belated.live.errors import StorageError, UnknownExperimentError

try:
    from openfeature.exception import FlagNotFoundError, GeneralError, TargetingKeyMissingError, TypeMismatchError
    from openfeature.flag_evaluation import FlagResolutionDetails, Reason
    from openfeature.provider import AbstractProvider, Metadata
except ImportError:
    raise MissingLibraryError('Flags of OpenFeature need its SDK: pip install "belated[openfeature]".') from None

if TYPE_CHECKING:
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.flag_evaluation import FlagValueType
    from openfeature.track import TrackingEventDetails

    from belated.live.interface import LiveExperiment, LiveStore

_Value = TypeVar("_Value")

#: Arms that are a flag's yes and no.
_BOOLEANS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


class Provider(AbstractProvider):
    """Gives the arms of a store's experiments as flags; the targeting key is the unit.

    A flag of text is the arm's name; a boolean one needs arms such as "on" and "off", a number arms that are numbers.
    If the store cannot be reached, the SDK gives the default of the call, which is in no log; so it does for an
    experiment with segments, which flags do not name. `track` tells an outcome.

    Parameters
    ----------
    store : LiveStore
        What `bl.live.open` gives; it is closed when the provider is shut down.
    """

    def __init__(self, store: LiveStore) -> None:
        super().__init__()
        self._store = store
        self._experiments: dict[str, LiveExperiment] = {}
        self._readable: set[tuple[str, Callable[[str], object]]] = set()

    def get_metadata(self) -> Metadata:
        """Return the provider's name."""
        return Metadata("belated")

    def shutdown(self) -> None:
        """Close the store."""
        self._store.close()

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Tell an outcome: the event's name is the experiment's; its value is 1 by default.

        The attribute `key` tells several events of a unit apart.
        """
        details = tracking_event_details
        value = 1.0 if details is None or details.value is None else details.value
        key = None if details is None else details.attributes.get("key")
        self._experiment(tracking_event_name).tell(
            _unit(evaluation_context), value, key="" if key is None else str(key)
        )

    # ---------------------------------------------------------------- flags

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Return the arm of a unit."""
        return self._resolve(flag_key, evaluation_context, str)

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Return whether the arm of a unit is "on", "yes" or "true"."""
        return self._resolve(flag_key, evaluation_context, _read_boolean)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Return the arm of a unit as a whole number."""
        return self._resolve(flag_key, evaluation_context, int)

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Return the arm of a unit as a number."""
        return self._resolve(flag_key, evaluation_context, float)

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        """Refuse: arms are names."""
        raise TypeMismatchError("Arms are text; ask for a string flag, and look up what the arm stands for.")

    async def resolve_string_details_async(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Return the arm of a unit, without blocking an event loop."""
        return await asyncio.to_thread(self.resolve_string_details, flag_key, default_value, evaluation_context)

    async def resolve_boolean_details_async(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Return whether the arm of a unit is "on", "yes" or "true", without blocking an event loop."""
        return await asyncio.to_thread(self.resolve_boolean_details, flag_key, default_value, evaluation_context)

    async def resolve_integer_details_async(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Return the arm of a unit as a whole number, without blocking an event loop."""
        return await asyncio.to_thread(self.resolve_integer_details, flag_key, default_value, evaluation_context)

    async def resolve_float_details_async(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Return the arm of a unit as a number, without blocking an event loop."""
        return await asyncio.to_thread(self.resolve_float_details, flag_key, default_value, evaluation_context)

    def _resolve(
        self, name: str, context: EvaluationContext | None, read: Callable[[str], _Value]
    ) -> FlagResolutionDetails[_Value]:
        unit = _unit(context)
        try:
            experiment = self._experiment(name)
            self._check_arms(experiment, read)
            decision = experiment.ask(unit)
        except BelatedError as error:
            _raise(error)
        value = _value(decision.arm, read)
        about: dict[str, bool | int | float | str] = {"logged": decision.logged, "version": decision.version}
        reason = Reason.SPLIT if decision.logged else Reason.DEFAULT
        return FlagResolutionDetails(value, reason=reason, variant=decision.arm, flag_metadata=about)

    def _check_arms(self, experiment: LiveExperiment, read: Callable[[str], object]) -> None:
        """Raise unless all arms are values of a type, before a unit is asked whose arm the product would not get."""
        if read is str or (experiment.name, read) in self._readable:
            return
        with suppress(StorageError):  # a fallback arm is logged nowhere
            for arm, state, _ in experiment.status().arms:
                if state != "dropped":
                    _value(arm, read)
            self._readable.add((experiment.name, read))

    def _experiment(self, name: str) -> LiveExperiment:
        experiment = self._experiments.get(name)
        if experiment is None:
            experiment = self._experiments[name] = self._store.experiment(name)
        return experiment


def _unit(context: EvaluationContext | None) -> str:
    if context is None or not context.targeting_key:
        raise TargetingKeyMissingError("The targeting key is missing; it is the unit whose arm is asked for.")
    return context.targeting_key


def _read_boolean(arm: str) -> bool:
    return _BOOLEANS[arm.lower()]


def _value(arm: str, read: Callable[[str], _Value]) -> _Value:
    """Return an arm as a value of a type."""
    try:
        return read(arm)
    except (KeyError, ValueError):
        raise TypeMismatchError("The arms' names are not values of this type; ask for a string flag.") from None


def _raise(error: BelatedError) -> NoReturn:
    """Raise an error as OpenFeature has it; the SDK then gives the default of the call."""
    kind = FlagNotFoundError if isinstance(error, UnknownExperimentError) else GeneralError
    raise kind(str(error)) from error

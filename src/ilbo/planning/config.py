"""The settings of the planner. Free of JAX, so that the command line can show them at once."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ilbo.errors import check_setting, tells_unknown_settings, tidy_settings
from ilbo.mdp.objective import Objective, objective_of
from ilbo.planning.estimators import ESTIMATORS, Estimator
from ilbo.planning.estimators.estimator import NextStates
from ilbo.planning.estimators.score import Baseline

EstimatorName = Literal["pathwise", "score", "critic"]
Horizon = Literal["time-left", "discounted"]
Optimizer = Literal["adam", "rmsprop"]
Sees = Literal["auto", "state", "time-left", "shared", "shared+state"]
ENDLESS = 10**9
"""Episodes that no run reaches: one that ends by the clock."""


@tells_unknown_settings(
    lr="policy_rate", learning_rate="policy_rate", gamma="discount", tau="target_rate",
    batch_size="policy_batch", hidden="layers", epochs="episodes", network="policy",
)  # fmt: skip
@dataclass(frozen=True)
class ILBO:
    """Settings of ILBO: by default one choice for all problems; `ILBO.paper` is the paper's."""

    layers: tuple[int, ...] = (256, 128, 64, 32)
    """Hidden layers of the policy and of the critic."""

    objective: str | Objective = "mean"
    """What is made of an episode's return: its mean; cvar:0.1, the mean of the worst tenth;
    entropic:LAMBDA; mean-std:LAMBDA; or worst, the mean under the worst of the problem's uncertain
    parameters."""

    policy: Sees | Callable[..., Any] = "auto"
    """What the policy sees: the state, or the time left as well, which is worth much where the
    horizon is short. By default the state, and the time too where the model sees it or training
    ends by the clock. `shared`: each component sees itself, its neighbours and the whole through
    one network for all; `shared+state`: with a network of the whole state added. In Python also a
    function (key, inputs, outputs) of your own that makes the policy's network."""

    shared_layers: tuple[int, ...] = (64, 64)
    """Hidden layers of a network that all components share."""

    shared_critic: bool = False
    """Whether the critic is a mean over components of one network for all, where the policy shares
    too."""

    estimator: EstimatorName | Estimator = "pathwise"
    """How the bound's gradient is estimated: through the model's derivatives (pathwise), through
    those of its density (score, the paper's), or through the critic alone (critic, an ablation)."""

    baseline: Baseline = "leave-one-out"
    """What the score estimator subtracts from the value of the next state: nothing, the value of
    the state, or the mean over the other draws (needs draws >= 2)."""

    next_states: NextStates = "replay"
    """Noise of the policy's steps: replayed from the store, the stored next state itself (score
    only), or drawn afresh."""

    draws: int = 1
    """Next states drawn for each sampled state in a policy update."""

    depth: int = 10
    """Steps that the model is rolled on, or more, before the critic judges; 1 is the paper's."""

    window: int = 4
    """Successive states, from each sampled one on, that a pathwise update counts; each of them sees
    at least `depth` steps of the model ahead."""

    critic: Horizon = "time-left"
    """A critic that sees the time left, or a stationary one, which must discount."""

    discount: float = 0.99
    """Discount of the stationary critic, where the problem's own is not below it."""

    optimizer: Optimizer = "adam"
    """Optimiser of both networks."""

    policy_rate: float = 3e-3
    """Learning rate of the policy."""

    critic_rate: float = 3e-3
    """Learning rate of the critic."""

    final_rate: float = 0.05
    """Both learning rates decay to this fraction by the end of training."""

    clip: float = 2.0
    """Gradients longer than this many times their running mean length are cut; 0: never."""

    critic_share: float = 0.5
    """Most that the critic's slope may count in the policy's gradient, beside the model's
    derivatives: it counts by as much as it explains of what actions tried out really add. For an
    action whose derivatives are 0 at every state, it takes their place. 0: the model's derivatives
    alone. For the pathwise estimator."""

    inward: float = 0.2
    """Least slope, as a share of the full one, that the policy's output layer shows to a gradient
    pointing from a bound back inside; 0 is the plain gradient, which can stick at a bound."""

    policy_batch: int = 32
    """States sampled from the recent store in a policy update."""

    candidates: int = 4
    """States drawn for each of these; the update prefers those whose time left has seen strong
    gradients, with weights that keep its gradient unbiased. 1: all states alike."""

    critic_batch: int = 64
    """Transitions sampled from the large store in a critic update."""

    critic_store: int = 1_000_000
    """Transitions that the large store, E^Q, holds at the most."""

    policy_store: int = 5_000
    """Most recent transitions that the policy's states are sampled from, E^μ."""

    prioritised: bool = False
    """Sample the large store by the critic's last error instead of uniformly."""

    target_rate: float = 0.01
    """Share τ of the networks that enters their slow copies at each step."""

    target_every: int = 4
    """Steps after which the slow copies follow, for all of them at once."""

    exploration: float = 0.2
    """Standard deviation of the exploration noise at first, as a share of the action's range."""

    final_exploration: float = 0.02
    """The same at the end; in between it decays geometrically."""

    own_start: float | None = None
    """Share of training episodes from the problem's own start; the others start in its region. By
    default three quarters, and all where the region is a guess, as it is for RDDL."""

    extremes: float = 0.0
    """How far starts drawn from the region crowd at its ends, low or high in all components at
    once; 0: drawn evenly."""

    parallel: int = 4
    """Episodes that run side by side: one update of each network for this many steps."""

    updates: int = 1
    """Updates of each network a step."""

    guard: int = 128
    """Episodes, along noise replayed from the store, on which the newest policy must earn more than
    the one selected so far to take its place; compared at every test. 0: the newest is selected."""

    evaluate_every: int = 25
    """Episodes between two tests of the policy."""

    test_episodes: int = 64
    """Episodes of each test."""

    episodes: int = 500
    """Training episodes of a run, unless the call says otherwise."""

    seconds: float | None = None
    """Seconds that training may take, compiling included, in place of a number of episodes: rates
    and exploration follow the share of the time that is gone, and results depend on the machine."""

    def __post_init__(self) -> None:
        tidy_settings(self)

        def check(good: object, name: str, wanted: str) -> None:
            check_setting(good, name, wanted, getattr(self, name))

        for name in ("layers", "shared_layers"):
            value = getattr(self, name)
            sizes = all(isinstance(size, int) and size >= 1 for size in value)
            check(value and sizes, name, "a list of positive sizes")
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            own = isinstance(value, Estimator) if name == "estimator" else callable(value)
            check(own or value in choices, name, "one of " + ", ".join(choices))
        for name in _COUNTS:
            value = getattr(self, name)
            check(isinstance(value, int) and value >= 1, name, "a whole number of at least 1")
        for name in ("policy_rate", "critic_rate"):
            check(0 < getattr(self, name) < math.inf, name, "a positive number")
        for name in ("discount", "target_rate", "final_rate"):
            check(0 < getattr(self, name) <= 1, name, "in (0, 1]")
        for name in ("exploration", "final_exploration", "critic_share", "inward"):
            check(0 <= getattr(self, name) <= 1, name, "in [0, 1]")
        check(self.own_start is None or 0 <= self.own_start <= 1, "own_start", "in [0, 1]")
        check(
            isinstance(self.guard, int) and self.guard >= 0, "guard", "a whole number of at least 0"
        )
        for name in ("clip", "extremes"):
            check(0 <= getattr(self, name) < math.inf, name, "0 or a positive number")
        if self.seconds is not None:
            check(0 < self.seconds < math.inf, "seconds", "a positive number")
        check(
            self.parallel <= self.policy_store <= self.critic_store,
            "policy_store",
            "at least `parallel` and at most `critic_store`",
        )
        if isinstance(self.estimator, Estimator):
            self._flatten(self.estimator)
        object.__setattr__(self, "objective", _tidy(self.objective))
        _ = self.gradient  # an estimator checks its own settings

    def _flatten(self, estimator: Estimator) -> None:
        """A built-in estimator given as an object is the same as its name and flat settings."""
        if type(estimator) not in ESTIMATORS.values():
            return
        for name, value in dataclasses.asdict(estimator).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "estimator", estimator.name)

    @property
    def form(self) -> ILBO:
        """What compiled programs depend on: the numbers that travel as inputs are left out, so that
        to read one of them here fails. Of those that switch something off at 0, whether they are 0
        stays."""
        form = copy.copy(self)
        for name in ("episodes", "seconds", *NUMBERS):
            object.__setattr__(form, name, None)
        for name in SWITCHES:
            object.__setattr__(form, name, math.inf if getattr(self, name) else 0.0)
        return form

    @property
    def most_episodes(self) -> int:
        """Where training ends at the latest."""
        return self.episodes if self.seconds is None else ENDLESS

    @property
    def holds_code(self) -> bool:
        """Whether some setting is code of the user's own."""
        own = isinstance(self.objective, Objective)
        return own or callable(self.policy) or isinstance(self.estimator, Estimator)

    def settled(self, model_sees_time: bool = False) -> ILBO:
        """The same with what the policy sees decided, so that it stays so if the run is made longer
        by other means."""
        if self.policy != "auto":
            return self
        sees = self.sees_time or model_sees_time
        return dataclasses.replace(self, policy="time-left" if sees else "state")

    @property
    def blends(self) -> bool:
        """Whether the critic's slope may count beside the estimator's gradient."""
        return self.critic_share > 0 and self.gradient.blends

    @property
    def leads(self) -> bool:
        """Whether the critic's slope may take the lead where the mean is planned for
        (`ilbo.planning.lead`). A run by the clock has its search for plans where the model's
        derivatives mislead."""
        return self.blends and self.seconds is None

    @property
    def sees_time(self) -> bool:
        """Whether the policy sees the time left."""
        return self.policy == "time-left" or (self.policy == "auto" and self.seconds is not None)

    @property
    def shares(self) -> bool:
        """Whether the policy shares what it knows between components."""
        return self.policy in ("shared", "shared+state")

    @property
    def gradient(self) -> Estimator:
        """The estimator of the bound's gradient, with its settings."""
        if isinstance(self.estimator, Estimator):
            return self.estimator
        kind = ESTIMATORS[self.estimator]
        return kind(**{f.name: getattr(self, f.name) for f in dataclasses.fields(kind)})

    @classmethod
    def paper(cls, **changes: Any) -> ILBO:
        """The paper's own method and settings, `changes` aside.

        The equation is the paper's: the score estimator at depth 1, V from a discounted critic; so
        are rates, batches, stores, τ, optimiser and the number of episodes. What departs from the
        paper, for steadiness, and leaves the equation alone:

        - The expectation over s' ~ T(s, a) is taken with 8 draws of the known model, along
          replayed noise, and the mean over the others as the baseline. The paper's single stored
          sample is `ILBO.paper(estimator=Score(draws=1, next_states="stored", baseline="value"))`.
        - Three of four episodes start in the own start, the others in the feasible states.
        - Learning rates decay to 5 % by the end.
        - The policy returned is the best on replayed noise (`guard`: 1,024 episodes), not on tests.
        - Outputs at a bound keep a least slope inwards (`inward`).
        """
        settings: dict[str, Any] = dict(
            estimator="score", baseline="leave-one-out", next_states="replay", draws=8, depth=1,
            window=1, critic="discounted", discount=0.99, optimizer="rmsprop", policy_rate=1e-4,
            critic_rate=1e-3, policy_batch=64, candidates=1, critic_batch=64,
            critic_store=1_000_000, policy_store=1_000, own_start=0.75, parallel=1,
            final_exploration=1e-4, target_rate=0.005, target_every=1, episodes=5_000,
            policy="state", critic_share=0.0, guard=1024,
        )  # fmt: skip
        return cls(**(settings | changes))

    @classmethod
    def everywhere(cls, **changes: Any) -> ILBO:
        """Settings for a policy that will be used from all starts of the region, `changes` aside.

        Nine of ten training episodes start in the region, more of them near its ends than by even
        draws; policy and critic share what they know between like components; longer windows see
        the model further ahead; 5,000 episodes.
        """
        settings: dict[str, Any] = dict(
            policy="shared", shared_layers=(128, 128), shared_critic=True, depth=16, window=8,
            own_start=0.1, extremes=1.4, policy_store=100_000, policy_batch=64, candidates=1,
            critic_batch=128, parallel=16, evaluate_every=100, episodes=5_000,
        )  # fmt: skip
        return cls(**(settings | changes))

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values; what is Python code appears by its name."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        if isinstance(self.estimator, Estimator):
            values["estimator"] = repr(self.estimator)
        if callable(self.policy):
            values["policy"] = getattr(self.policy, "__qualname__", repr(self.policy))
        values["objective"] = str(self.objective)
        return values


def _tidy(objective: str | Objective) -> str | Objective:
    """A built-in objective by its text, however it was given."""
    found = objective_of(objective)
    return str(found) if type(found).__module__ == Objective.__module__ else found


NUMBERS = (
    *("policy_rate", "critic_rate", "final_rate", "target_rate", "discount"),
    *("exploration", "final_exploration", "own_start"),
)
"""Settings that compiled programs take as inputs (`planning.numbers`)."""
SWITCHES = ("clip", "critic_share", "inward", "extremes")
"""The same, but 0 leaves a part of the program out."""
_CHOICES: dict[str, tuple[str, ...]] = {
    "estimator": EstimatorName.__args__,  # type: ignore[attr-defined]
    "baseline": Baseline.__args__,  # type: ignore[attr-defined]
    "next_states": NextStates.__args__,  # type: ignore[attr-defined]
    "critic": Horizon.__args__,  # type: ignore[attr-defined]
    "optimizer": Optimizer.__args__,  # type: ignore[attr-defined]
    "policy": Sees.__args__,  # type: ignore[attr-defined]
}
_COUNTS = (
    "draws",
    "depth",
    "window",
    "policy_batch",
    "candidates",
    "critic_batch",
    "critic_store",
    "policy_store",
    "target_every",
    "parallel",
    "updates",
    "evaluate_every",
    "test_episodes",
    "episodes",
)

GROUPS: dict[str, tuple[str, ...]] = {
    "objective": ("objective",),
    "network": ("layers", "policy", "shared_layers", "shared_critic"),
    "estimator": ("estimator", "baseline", "next_states", "draws", "depth", "window"),
    "critic": ("critic", "discount", "target_rate", "target_every"),
    "optimiser": (
        *("optimizer", "policy_rate", "critic_rate", "final_rate"),
        *("critic_share", "clip", "inward", "updates"),
    ),
    "stores": (
        *("critic_store", "policy_store", "prioritised"),
        *("critic_batch", "policy_batch", "candidates"),
    ),
    "exploration": ("exploration", "final_exploration", "own_start", "extremes", "parallel"),
    "length": ("episodes", "seconds"),
    "selection": ("guard",),
    "tests": ("evaluate_every", "test_episodes"),
}
"""The settings by what they are about: each is in one group."""

"""Pictures show what was simulated, for every family and for problems of the user's own."""

import jax.numpy as jnp
import numpy as np
import pytest
import tiny_runs

import ilbo
from ilbo import plots
from ilbo.errors import UserError
from ilbo.mdp.simple import POLICIES
from ilbo.planning.records import Record
from ilbo.plots import canvas, grid, pictures


class Falling(ilbo.Model):
    """Two heights, one push on both; the episode ends once the first height is below 0."""

    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return state - 1 + jnp.array([0.0, 1.0]) * action + 0.1 * noise

    def reward(self, state, action, next_state):
        return -jnp.abs(state[1])

    def bounds(self, state):
        return jnp.zeros(1), jnp.ones(1)

    def terminal(self, state):
        return state[0] < 0


def falling(horizon=8):
    return ilbo.Problem(
        Falling(),
        name="falling",
        initial_state=[3.5, 2.0],
        horizon=horizon,
        region=(0.0, 4.0),
        state_names=("height", "other"),
        action_names=("push",),
        state_units=("m", "m"),
        action_units=("N",),
    )


def history(seeds=1, tests=8, level=-100.0):
    draw = np.random.default_rng(0)
    result = []
    for seed in range(seeds):
        current = level - 50 * np.exp(-np.arange(tests)) + draw.normal(size=tests)
        best = np.maximum.accumulate(current)
        result.append(
            [Record(seed, 25 * (i + 1), current[i], best[i], 0, 0, 0, 0, i) for i in range(tests)]
        )
    return result


def panel(figure, title):
    return next(ax for ax in figure.axes if ax.get_title(loc="left") == title)


@pytest.mark.parametrize("name", ["navigation-3", "hvac-6", "reservoir-20", "hvac-3"])
def test_every_family_gives_a_picture_with_something_in_it(name, tmp_path):
    problem = ilbo.make(name)
    path = tmp_path / "deep" / "picture.png"
    plots.trajectories(problem, POLICIES["heuristic"](problem.model), path, episodes=8)
    import matplotlib.image

    picture = matplotlib.image.imread(path)[..., :3]
    assert min(picture.shape[:2]) > 400
    assert (picture.min(axis=-1) < 0.8).mean() > 0.01


def test_hvac_panels_show_the_median_of_the_simulated_rooms_in_the_comfort_band():
    problem = ilbo.make("hvac-6")
    policy = POLICIES["heuristic"](problem.model)
    figure = plots.draw_trajectories(problem, policy, episodes=16, seed=5)
    states = np.asarray(ilbo.simulate(problem, policy, 5, 16).states)
    ax = panel(figure, "room 3")
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), np.median(states[..., 2], axis=0))
    (comfort,) = ax.patches
    assert comfort.get_y() == 20.0
    assert comfort.get_height() == 3.5


def test_reservoir_panels_show_bounds_and_capacity_of_their_own_reservoir():
    problem = ilbo.make("reservoir-10")
    figure = plots.draw_trajectories(problem, POLICIES["midpoint"](problem.model), episodes=4)
    for i in (0, 9):
        ax = panel(figure, f"level {i + 1}")
        (allowed,) = ax.patches
        assert allowed.get_y() == pytest.approx(float(problem.model.lower[i]))
        assert allowed.get_y() + allowed.get_height() == pytest.approx(
            float(problem.model.upper[i])
        )
        assert ax.lines[0].get_ydata()[0] == pytest.approx(float(problem.model.capacity[i]))


def test_map_arrows_are_the_policys_moves_clipped_into_the_bounds():
    problem = ilbo.make("navigation-3")
    figure = plots.draw_trajectories(problem, lambda state: jnp.array([3.0, 0.25]), episodes=4)
    (arrows,) = (c for c in figure.axes[0].collections if hasattr(c, "U"))
    assert set(np.unique(arrows.U)) == {1.0}
    assert set(np.unique(arrows.V)) == {0.25}


def test_stochastic_policies_can_be_drawn(tmp_path):
    problem = ilbo.make("navigation-3")
    plots.trajectories(problem, POLICIES["random"](problem.model), tmp_path / "a.svg", episodes=4)
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_other_problems_get_a_panel_for_each_component_with_its_unit():
    figure = plots.draw_trajectories(falling(), lambda state: state[:1] / 8, episodes=8)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["height", "other", "push"]
    assert [ax.get_ylabel() for ax in figure.axes] == ["m", "m", "N"]


def test_names_are_drawn_as_they_are(tmp_path):
    name = r"$\badcmd$ a[/b]"
    problem = ilbo.Problem(
        tiny_runs.Drift(),
        name=name,
        initial_state=[1.0],
        horizon=4,
        region=(-1.0, 1.0),
        state_names=(name,),
    )
    plots.trajectories(problem, POLICIES["midpoint"](problem.exact), tmp_path / "t.svg")
    assert (tmp_path / "t.svg").read_text().count(name) >= 2


def test_actions_after_the_end_of_an_episode_are_not_drawn():
    figure = plots.draw_trajectories(falling(), lambda state: state[:1] / 8, episodes=8)
    push = panel(figure, "push").lines[0].get_ydata()
    assert np.isfinite(push[:4]).all()  # 3.5 falls below 0 after four steps, five at the most
    assert np.isnan(push[6:]).all()


class Watched(Falling):
    """Says more of itself than its components."""

    def observe(self, state, action):
        return {"work": action[0] * state[1]}


class Pictured(Falling):
    """Draws itself."""

    def draw(self, axes, trajectories):
        axes.plot(trajectories.states[:, :, 0].T, label="its own")


class Wide(Falling):
    def observe(self, state, action):
        return {"both": state}


def other(model):
    settings = {"name": "falling", "initial_state": [3.5, 2.0], "horizon": 8}
    return ilbo.Problem(model, region=(0.0, 4.0), **settings)


def test_what_never_changes_takes_no_panel_but_is_named():
    figure = plots.draw_trajectories(falling(), lambda state: jnp.array([0.5]), episodes=8)
    assert [ax.get_title("left") for ax in figure.axes] == ["height", "other"]
    assert "constant: push = 0.5" in figure.get_suptitle()


def test_quantities_of_the_model_are_drawn_beside_its_components():
    problem = other(Watched())
    figure = plots.draw_trajectories(problem, lambda state: state[:1] / 8, episodes=8)
    simulated = ilbo.simulate(problem, lambda state: state[:1] / 8, pictures.PICTURE_SEED, 8)
    work = np.median(simulated.actions[:, 0, 0] * simulated.states[:, 0, 1])
    np.testing.assert_allclose(panel(figure, "work").lines[0].get_ydata()[0], work, rtol=1e-6)


def test_a_model_that_draws_itself_is_asked_to():
    figure = plots.draw_trajectories(other(Pictured()), lambda state: jnp.ones(1), episodes=3)
    (ax,) = figure.axes
    assert len(ax.lines) == 3
    assert ax.lines[0].get_ydata()[0] == 3.5


def test_a_quantity_that_is_no_scalar_is_told():
    with pytest.raises(UserError, match=r"Wide.observe gives 'both' the shape \(2,\)"):
        plots.draw_trajectories(other(Wide()), lambda state: jnp.ones(1), episodes=3)


def test_large_problems_show_their_first_components_and_say_so():
    problem = ilbo.make("reservoir(50, 0)")
    figure = plots.draw_trajectories(problem, POLICIES["midpoint"](problem.model), episodes=2)
    assert len(figure.axes) == 2 * grid.MOST
    assert f"first {grid.MOST} of 50" in figure.get_suptitle()


def test_a_policy_that_returns_nan_is_reported_not_drawn(tmp_path):
    problem = ilbo.make("reservoir-10")
    with pytest.raises(UserError, match="policy's action 'outflow 1' is nan"):
        plots.trajectories(problem, lambda state: state * jnp.nan, tmp_path / "a.png", episodes=2)


def test_learning_curve_shows_the_mean_over_seeds_best_and_limit():
    runs = history(seeds=3)
    figure = plots.draw_learning_curve(runs, limit=-90.0)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    current = np.mean([[r.current for r in run] for run in runs], axis=0)
    best = np.mean([[r.best for r in run] for run in runs], axis=0)
    np.testing.assert_allclose(lines["current policy, mean of 3 seeds"].get_ydata(), current)
    np.testing.assert_allclose(lines["best so far, mean of 3 seeds"].get_ydata(), best)
    assert lines["hindsight limit"].get_ydata()[0] == -90.0
    assert len(figure.axes) == 2  # the later part once more, closer


@pytest.mark.parametrize("tests", [1, 2, 5, 40])
def test_learning_curve_of_any_length(tests, tmp_path):
    plots.learning_curve(history(tests=tests), tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 5_000


def test_learning_curve_of_a_run_that_stopped_early_and_of_one_that_failed(tmp_path):
    runs = history(seeds=2)
    runs[1] = runs[1][:3]
    runs[0][4] = Record(0, 125, float("nan"), float("-inf"), 0, 0, 0, 0, 0)
    plots.learning_curve(runs, tmp_path / "curve.svg")


def test_no_history_and_unknown_formats_are_refused(tmp_path):
    with pytest.raises(UserError, match="no test in this history"):
        plots.learning_curve([[]], tmp_path / "a.png")
    with pytest.raises(UserError, match=r"ends in one of .png, .svg, .pdf; 'a.gif' does not"):
        plots.learning_curve(history(), tmp_path / "a.gif")


def test_quantiles_leave_out_ended_episodes():
    values = np.arange(12.0).reshape(2, 6, 1)
    alive = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]], bool)
    median = canvas.quantiles(values, alive)[2, :, 0]
    np.testing.assert_allclose(median, [3, 4, 5, 9, np.nan, np.nan])


def test_drawing_leaves_no_global_state(tmp_path):
    import matplotlib
    from matplotlib._pylab_helpers import Gcf

    before, windows = dict(matplotlib.rcParams), dict(Gcf.figs)
    plots.learning_curve(history(), tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == before
    assert Gcf.figs == windows


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-482_500, "−482,500"),
        (-482_611.7, "−482,611.7"),  # where a curve spans less than 1, ticks must still differ
        (0.25, "0.25"),
        (1000.0, "1,000"),
        (-20, "−20"),
    ],
)
def test_ticks_are_readable(value, text):
    assert canvas.thousands(value) == text

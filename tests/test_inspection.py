import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_probly.inspection import MostUncertainDisplay
from sklearn_probly.measures import entropy

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

X, Y = load_digits(return_X_y=True)
X, Y = X[:300], Y[:300]
Y_PRED = np.where(np.arange(300) % 2, Y, (Y + 1) % 10)  # even rows are wrong
UNCERTAINTY = np.random.default_rng(0).permutation(300) / 100
ORDER = np.argsort(-UNCERTAINTY)


class UnsureForest(RandomForestClassifier):
    uncertainty_kinds_ = ("total", "epistemic")
    uncertainty_units_ = {"total": "bits", "epistemic": "nats"}  # noqa: RUF012

    def predict_uncertainty(self, X, kind="total"):
        h = entropy(self.predict_proba(X))
        return h if kind == "total" else 10 - h


@pytest.fixture
def plt(monkeypatch):
    """Give pyplot on a backend without windows, its figures closed and its settings restored."""
    with matplotlib.rc_context():
        import matplotlib.pyplot as plt

        before = plt.get_fignums()
        plt.switch_backend("agg")
        yield plt
        for number in set(plt.get_fignums()) - set(before):
            plt.close(number)


def show(*args, n_axes=5, **kwargs):
    """Draw on a figure that pyplot does not know."""
    ax = Figure().subplots(1, n_axes)
    args = args or (X, Y, Y_PRED, UNCERTAINTY)
    return MostUncertainDisplay.from_predictions(*args, ax=ax, **kwargs)


def drawn(display):
    return np.array([ax.images[0].get_array() for ax in display.ax_])


def titles(display):
    return [ax.get_title() for ax in display.ax_]


def test_shows_the_most_uncertain_first():
    display = show()
    np.testing.assert_array_equal(drawn(display), X[ORDER[:5]].reshape(5, 8, 8))
    assert titles(display) == [
        f"true {Y[i]}, predicted {Y_PRED[i]}\n{UNCERTAINTY[i]:.2f} bits" for i in ORDER[:5]
    ]
    np.testing.assert_array_equal(display.indices, ORDER[:5])
    np.testing.assert_array_equal(display.images, X[ORDER[:5]].reshape(5, 8, 8))
    np.testing.assert_array_equal(display.y_true, Y[ORDER[:5]])
    np.testing.assert_array_equal(display.y_pred, Y_PRED[ORDER[:5]])
    np.testing.assert_array_equal(display.uncertainty, UNCERTAINTY[ORDER[:5]])


def test_equal_uncertainties_keep_the_order_of_rows():
    np.testing.assert_array_equal(show(X, Y, Y_PRED, np.ones(300)).indices, np.arange(5))


def test_title():
    display = show(X[:1], [4], [9], [1.234], n_axes=1)
    assert titles(display) == ["true 4, predicted 9\n1.23 bits"]
    assert titles(show(X[:1], ["a"], ["a"], [2], unit="nats")) == ["true a, predicted a\n2.00 nats"]
    assert titles(show(X[:1], [4], [9], [2], unit=None)) == ["true 4, predicted 9\n2.00"]


def test_long_labels_take_two_lines():
    display = show(X[:1], ["Ankle boot"], ["Sneaker"], [1])
    assert titles(display) == ["true Ankle boot,\npredicted Sneaker\n1.00 bits"]


def test_errors_are_told_without_colour():
    display = show()
    assert [ax.get_xlabel() for ax in display.ax_] == [
        "wrong" if Y[i] != Y_PRED[i] else "right" for i in ORDER[:5]
    ]
    assert {ax.get_xlabel() for ax in display.ax_} == {"wrong", "right"}


def test_grey_values_share_one_scale():
    assert {ax.images[0].get_clim() for ax in show().ax_} == {(0.0, 16.0)}


@pytest.mark.parametrize(
    ("rows", "image_shape", "drawn_shape"),
    [
        ((36,), None, (6, 6)),
        ((36,), (4, 9), (4, 9)),
        ((36,), (4, 3, 3), (4, 3, 3)),
        ((4, 9), None, (4, 9)),
        ((1, 4, 9), None, (4, 9)),
        ((4, 9, 1), None, (4, 9)),
        ((4, 9, 3), None, (4, 9, 3)),
    ],
)
def test_forms_of_images(rows, image_shape, drawn_shape):
    images = np.random.default_rng(0).random((2, *rows))
    display = show(images, [0, 1], [0, 1], [0.2, 0.1], image_shape=image_shape, n_axes=2)
    np.testing.assert_array_equal(drawn(display), images.reshape(2, *drawn_shape))


def test_channels_first_are_moved_last():
    images = np.random.default_rng(0).random((2, 3, 4, 9))
    display = show(images, [0, 1], [0, 1], [0.2, 0.1], n_axes=2)
    np.testing.assert_array_equal(drawn(display), images.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("rows", "image_shape"),
    [
        ((35,), None),
        ((36,), (6, 7)),
        ((36,), (36,)),
        ((36,), (6, 3, 2)),
        ((2, 4, 9), None),
        ((1, 1, 4, 9), None),
        ((), None),
    ],
)
def test_image_shape_that_does_not_fit(rows, image_shape):
    with pytest.raises(ValueError, match=r"image_shape must be .* got .*Pass the image_shape"):
        show(np.zeros((1, *rows)), [0], [0], [0.1], image_shape=image_shape)


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((X, Y, Y_PRED, UNCERTAINTY[:9]), "inconsistent numbers of samples"),
        ((X[:9], Y, Y_PRED, UNCERTAINTY), "inconsistent numbers of samples"),
        ((X, Y[:9], Y_PRED, UNCERTAINTY), "inconsistent numbers of samples"),
        ((X, Y, np.eye(300), UNCERTAINTY), "should be a 1d array"),
        ((X, Y, Y_PRED, np.full(300, np.nan)), "uncertainty must be finite; got nan at row 0"),
        ((X[:0], [], [], []), "uncertainty must have shape"),
    ],
)
def test_bad_arrays(args, match):
    with pytest.raises(ValueError, match=match):
        show(*args)


@pytest.mark.parametrize("n_images", [0, -1])
def test_n_images_must_be_positive(n_images):
    with pytest.raises(ValueError, match=f"n_images must be at least 1; got {n_images}"):
        show(n_images=n_images)


def test_fewer_samples_than_images():
    assert len(show(X[:3], Y[:3], Y_PRED[:3], UNCERTAINTY[:3]).ax_) == 3


def test_axes_of_the_user():
    figure = Figure()
    grid = figure.subplots(2, 3)
    display = MostUncertainDisplay.from_predictions(X, Y, Y_PRED, UNCERTAINTY, ax=grid)
    assert display.figure_ is figure
    assert isinstance(display.ax_, np.ndarray)
    assert display.ax_.tolist() == grid.ravel()[:5].tolist()
    assert not grid[1, 2].images
    again = display.plot(ax=list(Figure().subplots(1, 5)))
    assert again is display
    assert again.figure_ is not figure


def test_single_axes():
    axis = Figure().subplots()
    display = MostUncertainDisplay.from_predictions(X, Y, Y_PRED, UNCERTAINTY, n_images=1, ax=axis)
    assert display.ax_.tolist() == [axis]
    with pytest.raises(ValueError, match=r"each of the 5 images; got 1. Pass more, lower n_images"):
        display.from_predictions(X, Y, Y_PRED, UNCERTAINTY, ax=axis)


def test_too_few_axes():
    with pytest.raises(ValueError, match=r"each of the 5 images; got 4. Pass more"):
        show(n_axes=4)


@pytest.mark.parametrize("n_images", [1, 5, 7])
def test_own_figure(plt, n_images):
    before = plt.get_fignums()
    settings = dict(matplotlib.rcParams)
    display = MostUncertainDisplay.from_predictions(X, Y, Y_PRED, UNCERTAINTY, n_images=n_images)
    assert display.ax_.shape == (n_images,)
    assert list(display.figure_.axes) == display.ax_.tolist()
    assert len(plt.get_fignums()) == len(before) + 1
    assert dict(matplotlib.rcParams) == settings
    display.figure_.canvas.draw()


def test_init_only_stores():
    images = object()
    display = MostUncertainDisplay(images, 1, 2, 3, unit="nats", indices=4)
    assert vars(display) == {
        "images": images,
        "y_true": 1,
        "y_pred": 2,
        "uncertainty": 3,
        "unit": "nats",
        "indices": 4,
    }


@pytest.mark.parametrize(
    ("kind", "unit"), [(None, "bits"), ("total", "bits"), ("epistemic", "nats")]
)
@pytest.mark.parametrize("wrap", ["bare", "pipeline", "search"])
def test_from_estimator(kind, unit, wrap):
    forest = UnsureForest(n_estimators=5, random_state=0)
    estimator = {
        "bare": forest,
        "pipeline": make_pipeline(FunctionTransformer(), forest),
        "search": GridSearchCV(make_pipeline(FunctionTransformer(), forest), {}, cv=2),
    }[wrap].fit(X[:200], Y[:200])
    display = MostUncertainDisplay.from_estimator(
        estimator, X[200:], Y[200:], kind=kind, n_images=4, ax=Figure().subplots(2, 2)
    )
    fitted = forest.fit(X[:200], Y[:200])
    uncertainty = fitted.predict_uncertainty(X[200:], kind or "total")
    order = np.argsort(-uncertainty, kind="stable")[:4]
    np.testing.assert_array_equal(display.indices, order)
    np.testing.assert_array_equal(display.y_true, Y[200:][order])
    np.testing.assert_array_equal(display.y_pred, fitted.predict(X[200:])[order])
    np.testing.assert_array_equal(display.uncertainty, uncertainty[order])
    assert display.unit == unit
    assert all(title.endswith(unit) for title in titles(display))


def test_from_estimator_takes_a_frame():
    frame = pd.DataFrame(X).add_prefix("pixel")
    forest = UnsureForest(n_estimators=2, random_state=0).fit(frame, Y)
    display = MostUncertainDisplay.from_estimator(
        forest, frame, pd.Series(Y, index=frame.index[::-1]), ax=Figure().subplots(1, 5)
    )
    np.testing.assert_array_equal(drawn(display), X[display.indices].reshape(5, 8, 8))
    np.testing.assert_array_equal(display.y_true, Y[display.indices])


def test_from_estimator_without_a_known_unit():
    class Unsure:
        def predict(self, X):
            return np.zeros(len(X))

        def predict_uncertainty(self, X):
            return np.ones(len(X))

    display = MostUncertainDisplay.from_estimator(
        Unsure(), X, Y, n_images=1, ax=Figure().subplots()
    )
    assert display.unit is None
    assert titles(display) == [f"true {Y[0]}, predicted 0.0\n1.00"]


def test_from_estimator_without_uncertainty():
    forest = RandomForestClassifier(n_estimators=2).fit(X, Y)
    with pytest.raises(TypeError, match="got RandomForestClassifier"):
        MostUncertainDisplay.from_estimator(forest, X, Y)


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-probly\[plot\]'"):
        MostUncertainDisplay.from_predictions(X, Y, Y_PRED, UNCERTAINTY)


def test_subclass_makes_its_own_kind():
    class Mine(MostUncertainDisplay):
        pass

    display = Mine.from_predictions(X, Y, Y_PRED, UNCERTAINTY, ax=Figure().subplots(1, 5))
    assert type(display) is Mine

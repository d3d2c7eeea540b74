import inspect
import itertools
import re
import sys

import numpy as np
import pytest

from sklearn_probly import inspection
from sklearn_probly.inspection import MostUncertainDisplay

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

Y_TRUE = np.array([4, 7, 1, 0])
Y_PRED = np.array([9, 7, 1, 6])
UNCERTAINTY = np.array([0.2, 1.234, 0.1, 0.9])


@pytest.fixture
def images():
    return np.random.default_rng(0).random((4, 3, 3))


def new_axes(n):
    """Axes of a figure that pyplot knows nothing of."""
    figure = Figure()
    FigureCanvasAgg(figure)
    return figure.subplots(1, n, squeeze=False)[0]


def show(X, n_images=4, ax=None, uncertainty=UNCERTAINTY, y_true=Y_TRUE, y_pred=Y_PRED, **kwargs):
    ax = new_axes(n_images) if ax is None else ax
    return MostUncertainDisplay.from_predictions(
        X, y_true, y_pred, uncertainty, n_images=n_images, ax=ax, **kwargs
    )


def drawn(display):
    return np.array([axis.images[0].get_array() for axis in display.ax_])


def test_most_uncertain_first(images):
    display = show(images.reshape(4, 9), n_images=3)
    assert [axis.get_title() for axis in display.ax_] == [
        "true 7, predicted 7\n1.23 bits",
        "true 0, predicted 6\n0.90 bits",
        "true 4, predicted 9\n0.20 bits",
    ]
    np.testing.assert_array_equal(drawn(display), images[[1, 3, 0]])
    np.testing.assert_array_equal(display.uncertainty, UNCERTAINTY[[1, 3, 0]])
    np.testing.assert_array_equal(display.y_true, [7, 0, 4])
    np.testing.assert_array_equal(display.y_pred, [7, 6, 9])


def test_equal_uncertainty_keeps_the_order(images):
    np.testing.assert_array_equal(drawn(show(images, uncertainty=np.ones(4))), images)


def test_unsigned_uncertainty(images):
    display = show(images, uncertainty=np.array([0, 3, 1, 2], dtype=np.uint8))
    np.testing.assert_array_equal(display.uncertainty, [3, 2, 1, 0])


def test_wrong_predictions_stand_out(images):
    display = show(images)
    assert [axis.get_xlabel() for axis in display.ax_] == ["", "wrong", "wrong", ""]
    widths = [axis.spines["left"].get_linewidth() for axis in display.ax_]
    assert min(widths[1], widths[2]) > 2 * max(widths[0], widths[3])
    colors = [axis.spines["left"].get_edgecolor() for axis in display.ax_]
    assert colors[1] == colors[2] == to_rgba("tab:red")
    assert to_rgba("tab:red") not in (colors[0], colors[3])


def test_string_labels(images):
    names = np.array([f"c{i}" for i in range(10)])
    display = show(images, y_true=names[Y_TRUE], y_pred=names[Y_PRED])
    assert display.ax_[1].get_title() == "true c0, predicted c6\n0.90 bits"
    assert display.ax_[1].get_xlabel() == "wrong"


def test_labels_of_other_types_are_wrong(images):
    display = show(images, y_pred=Y_PRED.astype(str))
    assert [axis.get_xlabel() for axis in display.ax_] == ["wrong"] * 4


def test_unit(images):
    display = show(images, unit="nats")
    assert display.ax_[0].get_title().endswith("\n1.23 nats")


def test_grey_images_share_one_scale(images):
    display = show(images)
    assert {axis.images[0].get_clim() for axis in display.ax_} == {(images.min(), images.max())}


def test_rendered_pixels():
    image = np.array([[0.0, 1.0], [1.0, 0.0]])
    figure = Figure(figsize=(1, 1), dpi=100)
    canvas = FigureCanvasAgg(figure)
    axis = figure.add_axes((0, 0, 1, 1))
    show([image], 1, axis, uncertainty=[1], y_true=[0], y_pred=[0])
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())
    np.testing.assert_array_equal(
        pixels[25::50, 25::50, :3], np.repeat(255 * image[..., None], 3, axis=2)
    )


@pytest.mark.parametrize(
    "form",
    [
        lambda images: images.reshape(4, 9),
        lambda images: images,
        lambda images: images[:, np.newaxis],
        lambda images: images.tolist(),
        lambda images: images.reshape(4, 9).astype(object),
        lambda images: pytest.importorskip("pandas").DataFrame(
            images.reshape(4, 9), index=[7, 5, 3, 1]
        ),
        lambda images: pytest.importorskip("torch").tensor(images)[:, None],
    ],
    ids=["rows", "images", "one channel", "list", "object", "DataFrame", "tensor"],
)
def test_forms_of_input(images, form):
    np.testing.assert_array_equal(drawn(show(form(images))), images[[1, 3, 0, 2]])


def test_image_shape():
    X = np.arange(24.0).reshape(4, 6)
    assert drawn(show(X, image_shape=(2, 3))).tolist()[0] == [[6, 7, 8], [9, 10, 11]]
    assert drawn(show(X, image_shape=(3, 2))).shape == (4, 3, 2)


@pytest.mark.parametrize(
    "form",
    [
        lambda X: (X, None),
        lambda X: (X.reshape(4, -1), (2, 5, 3)),
        lambda X: (np.moveaxis(X, -1, 1), None),
    ],
    ids=["channels last", "rows", "channels first"],
)
def test_colour(form):
    colour = np.random.default_rng(0).random((4, 2, 5, 3))
    X, image_shape = form(colour)
    np.testing.assert_array_equal(drawn(show(X, image_shape=image_shape)), colour[[1, 3, 0, 2]])


def test_plot_again_on_other_axes(images):
    display = show(images, n_images=1)
    axis = new_axes(1)[0]
    assert display.plot(ax=axis) is display
    assert display.ax_.tolist() == [axis]
    assert display.figure_ is axis.figure
    assert axis.get_title() == "true 7, predicted 7\n1.23 bits"


def test_spare_axes_stay_empty(images):
    axes = np.reshape(new_axes(6), (2, 3))
    display = show(images, ax=axes)
    assert display.ax_.tolist() == axes.ravel()[:4].tolist()
    assert [len(axis.images) for axis in axes.ravel()] == [1, 1, 1, 1, 0, 0]


def test_own_figure(images, pyplot):
    X, y = np.zeros((7, 9)), np.arange(7)
    display = MostUncertainDisplay.from_predictions(X, y, y, y / 10, n_images=7)
    assert display.ax_.shape == (7,)
    assert display.figure_.axes == display.ax_.tolist()
    assert display.figure_ is pyplot.gcf()
    columns = [axis.get_subplotspec().colspan.start for axis in display.ax_]
    assert columns == [0, 1, 2, 3, 4, 0, 1]
    default = MostUncertainDisplay.from_predictions(X, y, y, y / 10)
    assert default.ax_.shape == (5,)
    assert default.figure_ is not display.figure_


def test_titles_do_not_overlap(pyplot):
    names = np.array(["Iris-versicolor"] * 5)
    display = MostUncertainDisplay.from_predictions(np.zeros((5, 9)), names, names, np.ones(5))
    display.figure_.canvas.draw()
    boxes = [axis.title.get_window_extent() for axis in display.ax_]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    assert boxes[0].x0 >= 0
    assert boxes[-1].x1 <= display.figure_.bbox.x1


def test_global_settings_stay(images, pyplot, monkeypatch):
    monkeypatch.setattr(pyplot, "show", lambda *args, **kwargs: pytest.fail("pyplot.show called"))
    before = dict(pyplot.rcParams)
    MostUncertainDisplay.from_predictions(images, Y_TRUE, Y_PRED, UNCERTAINTY, n_images=2)
    assert dict(pyplot.rcParams) == before


def test_init_only_stores():
    arguments = {name: object() for name in inspect.signature(MostUncertainDisplay).parameters}
    display = MostUncertainDisplay(**arguments)
    assert vars(display) == arguments


def test_from_estimator(images, monkeypatch):
    class Classifier:
        def predict(self, X):
            assert X is given
            return Y_PRED

    def predict_uncertainty(estimator, X, *, kind=None):
        assert estimator is classifier
        assert X is given
        return UNCERTAINTY * {None: 1, "epistemic": 2}[kind]

    def uncertainty_unit(estimator, kind=None):
        assert estimator is classifier
        return {None: "bits", "epistemic": "nats"}[kind]

    given, classifier = images.reshape(4, 9), Classifier()
    monkeypatch.setattr(inspection, "predict_uncertainty", predict_uncertainty)
    monkeypatch.setattr(inspection, "uncertainty_unit", uncertainty_unit)
    for kind, second_line in ((None, "1.23 bits"), ("epistemic", "2.47 nats")):
        display = MostUncertainDisplay.from_estimator(
            classifier, given, Y_TRUE, kind=kind, n_images=2, ax=new_axes(2)
        )
        assert display.ax_[0].get_title() == f"true 7, predicted 7\n{second_line}"
        np.testing.assert_array_equal(drawn(display), images[[1, 3]])


def test_from_estimator_real():
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    from sklearn_probly.uncertainty import predict_uncertainty

    X, y = load_digits(return_X_y=True, as_frame=True)
    forest = RandomForestClassifier(10, random_state=0).fit(X[:300], y[:300])
    X_test, y_test = X[300:600], y[300:600]
    display = MostUncertainDisplay.from_estimator(forest, X_test, y_test, ax=new_axes(5))
    uncertainty = predict_uncertainty(forest, X_test)
    top = np.argsort(-uncertainty, kind="stable")[:5]
    np.testing.assert_array_equal(display.uncertainty, uncertainty[top])
    np.testing.assert_array_equal(drawn(display).reshape(5, 64), X_test.to_numpy()[top])
    np.testing.assert_array_equal(display.y_pred, forest.predict(X_test)[top])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((4, 10))}, "10 features, which do not make a square.*pass image_shape="),
        ({"X": np.zeros((4, 0))}, r"image_shape=\(0, 0\) needs 0 values per image, at least one"),
        ({"X": np.zeros(4)}, r"must have shape \(h, w\) or \(h, w, 3\), got \(\) with X of shape"),
        ({"X": np.zeros((4, 2, 5, 5))}, r"got \(2, 5, 5\) with X of shape \(4, 2, 5, 5\)"),
        ({"image_shape": (2, 4)}, r"image_shape=\(2, 4\) needs 8 values.* X has 9"),
        ({"image_shape": (-3, -3)}, r"image_shape=\(-3, -3\) needs"),
        ({"image_shape": (9,)}, r"must have shape \(h, w\) or \(h, w, 3\), got \(9,\)"),
        ({"image_shape": (3, 3, 1)}, r"got \(3, 3, 1\)"),
        ({"y_true": [4, 7, 1]}, "the same length, got 4, 3, 4 and 4; pass one"),
        ({"y_pred": [4]}, "the same length, got 4, 4, 1 and 4; pass one"),
        ({"uncertainty": [1.0, 2.0]}, "the same length, got 4, 4, 4 and 2; pass one"),
        ({"uncertainty": np.ones((4, 2))}, r"uncertainty must have shape .*, got \(4, 2\)"),
        ({"y_true": np.ones((4, 1))}, r"y_true must have shape \(n_samples,\), got \(4, 1\)"),
        ({"uncertainty": [1, np.nan, 1, np.nan]}, "got 2 NaN among 4 values, the first at index 1"),
        ({"n_images": 5}, "n_images must be .* from 1 to the number of images, 4, got 5"),
        ({"n_images": 0}, "n_images must be .*, got 0"),
        ({"n_images": 2.0}, r"n_images must be .*, got 2\.0"),
        ({"ax": new_axes(3)}, "ax must hold one Axes per image, got 3 for 4 images"),
        ({"ax": new_axes(1)[0]}, "ax must hold one Axes per image, got 1 for 4 images"),
        ({"ax": "left"}, r"ax must be matplotlib Axes, got 'left'; pass what plt.subplots\(1, 4\)"),
    ],
)
def test_errors(images, change, message):
    arguments = {
        "X": images.reshape(4, 9),
        "y_true": Y_TRUE,
        "y_pred": Y_PRED,
        "uncertainty": UNCERTAINTY,
        "n_images": 4,
    }
    with pytest.raises(ValueError, match=message):
        MostUncertainDisplay.from_predictions(**{**arguments, **change})


def test_without_matplotlib(images, monkeypatch):
    axes = new_axes(4)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'sklearn-probly[plot]'")):
        show(images, ax=axes)

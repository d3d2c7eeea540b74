import math

import pytest
import torch
from torch import nn

from sklearn_probly.modules.dare import EPS, AntiRegularizedCrossEntropy
from sklearn_probly.modules.members import IndependentMembers, MemberList, StackedMembers
from sklearn_probly.modules.mlp import mlp


class Members(IndependentMembers):
    """Members whose only weights are one row each of a table."""

    def __init__(self, table):
        super().__init__()
        self.table = nn.Parameter(torch.as_tensor(table, dtype=torch.float64))
        self.n_members = len(table)

    def member_parameters(self):
        yield self.table, None


def anti_regularization(theta):
    """R, the mean of log(theta^2 + eps)."""
    return theta.square().add(EPS).log().mean()


def gradient(table, losses, **params):
    members = Members(table)
    loss = torch.tensor(losses, dtype=torch.float64)
    AntiRegularizedCrossEntropy(**{"reg_weight": 1.0, **params}).add_gradients(members, loss)
    return members.table.grad


def test_anti_regularization_by_hand():
    theta = torch.tensor([1, math.e, 1 / math.e, 2], dtype=torch.float64)
    assert anti_regularization(theta).item() == pytest.approx(math.log(2) / 2, abs=1e-6)
    assert anti_regularization(torch.zeros(3, dtype=torch.float64)).item() == pytest.approx(
        -15.942385, abs=1e-6
    )


def test_gradient_by_hand():
    theta = [1, math.e, 1 / math.e, 2]
    got = -gradient([theta], [0.0])[0]
    expected = torch.tensor([0.5, 0.183940, 1.359140, 0.25], dtype=torch.float64)
    torch.testing.assert_close(got, expected, rtol=0, atol=2e-6)


def test_gradient_is_zero_at_zero_and_largest_at_the_root_of_eps():
    at = [0.0, math.sqrt(EPS), 2 * math.sqrt(EPS), 0.5 * math.sqrt(EPS)]
    got = -gradient([at], [0.0])[0] * 4
    assert got[0] == 0
    assert got[1].item() == pytest.approx(2896.309, abs=1e-2)
    assert got[1] == got.max()


def test_gradient_agrees_with_autograd():
    theta = torch.randn(20, dtype=torch.float64, requires_grad=True)
    anti_regularization(theta).mul(-0.7).backward()
    got = gradient([theta.tolist()], [0.0], reg_weight=0.7)[0]
    torch.testing.assert_close(got, theta.grad, rtol=1e-10, atol=0)


@pytest.mark.parametrize(("loss", "is_open"), [(0.2999, True), (0.3, True), (0.3001, False)])
def test_gate_at_the_threshold(loss, is_open):
    assert bool(gradient([[1.0]], [loss], threshold=0.3).any()) == is_open


def test_gates_are_each_members_own():
    got = gradient([[1.0, 2.0], [1.0, 2.0]], [0.1, 0.9])
    assert got[0].all()
    assert not got[1].any()


@pytest.mark.parametrize(("threshold", "is_open"), [(math.inf, True), (-math.inf, False)])
def test_infinite_thresholds(threshold, is_open):
    assert bool(gradient([[1.0]], [1e9], threshold=threshold).any()) == is_open


def test_every_weight_grows_under_a_constant_loss():
    theta = torch.randn(50, dtype=torch.float64)
    step = -gradient([theta.tolist()], [0.0])[0]
    expected = 2 * theta / (50 * (theta.square() + EPS))
    torch.testing.assert_close(step, expected, rtol=1e-10, atol=0)
    assert ((theta + 0.1 * step).abs() > theta.abs()).all()


def test_both_forms_of_members_get_the_same_gradient():
    def nets():
        return [mlp(4, 2, (3,), generator=torch.Generator().manual_seed(s)) for s in range(2)]

    stacked, listed = StackedMembers.from_members(nets()), MemberList(nets(), input_dim=2)
    loss = torch.tensor([0.1, 0.2])
    for module in (stacked, listed):
        AntiRegularizedCrossEntropy(threshold=0.15).add_gradients(module, loss)
    grads = [p.grad for p in stacked.parameters()]
    for index, member in enumerate(listed.members):
        for theirs, ours in zip(member.parameters(), grads, strict=True):
            torch.testing.assert_close(
                ours[index].mT if ours.dim() == 3 else ours[index], theirs.grad
            )

import torch
from torch.nn import functional

from sklearn_probly.modules.losses import MemberCrossEntropy


def test_member_losses_are_plain_cross_entropies():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 4, generator=generator)
    y = torch.randint(4, (3, 5), generator=generator)
    weight = torch.rand(3, 5, generator=generator)
    loss = MemberCrossEntropy()
    expected = torch.stack([functional.cross_entropy(a, b) for a, b in zip(logits, y, strict=True)])
    torch.testing.assert_close(loss.member_loss(logits, y), expected)
    rows = torch.stack(
        [functional.cross_entropy(a, b, reduction="none") for a, b in zip(logits, y, strict=True)]
    )
    torch.testing.assert_close(loss.member_loss(logits, y, weight), (rows * weight).mean(1))
    shared = torch.stack([functional.cross_entropy(a, y[0]) for a in logits])
    torch.testing.assert_close(loss.member_loss(logits, y[0]), shared)
    assert loss(expected) == expected.mean()
    assert MemberCrossEntropy("sum")(expected) == expected.sum()


def test_joint_loss_is_that_of_the_mean_probability():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)
    y = torch.randint(4, (5,), generator=generator)
    expected = -logits.softmax(-1).mean(0)[torch.arange(5), y].log()
    torch.testing.assert_close(MemberCrossEntropy().joint_row_loss(logits, y), expected)
    far = torch.tensor([[[2000.0, 0.0]], [[1000.0, 0.0]]]).double()
    assert MemberCrossEntropy().joint_row_loss(far, torch.tensor([1])).tolist() == [
        1000 + torch.tensor(2.0).double().log().item()
    ]

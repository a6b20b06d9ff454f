"""Medians and modes of long rows, with not-a-numbers, along any dimension: values are ATen's, places lead to them."""

import nereid.ops
import pytest
import torch


def most_frequent(x, dim):
    """The least of the most frequent elements. ATen's kernel on CPUs is wrong where there are not-a-numbers, which equal nothing."""

    def of_row(row):
        values, counts = row[row == row].unique(return_counts=True)
        return values[counts == counts.max()][0]

    rows = x.movedim(dim, -1)
    return torch.stack([of_row(row) for row in rows.reshape(-1, rows.shape[-1])]).view(rows.shape[:-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("shape,dim", [((3, 2500), 1), ((2500, 3), 0), ((4, 1, 3), 1), ((2, 3, 4), -2)])
def test_values_and_places(shape, dim, dtype, target):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 40, shape, generator=generator).to(dtype)
    if dtype.is_floating_point:
        x[torch.rand(shape, generator=generator) < 0.3] = float("nan")
        x.select(dim, 0).zero_()
        x[0] = 1
    x = x.to(target)
    for name in ("median", "nanmedian", "mode"):
        function = getattr(torch, name)
        wanted = most_frequent(x.cpu(), dim) if name == "mode" else function(x.cpu(), dim).values
        with nereid.ops.use():
            values, places = function(x, dim)
            out = [torch.empty(2 * values.numel() or 1, dtype=its, device=target)[::2].view(values.shape) for its in (dtype, torch.int64)]
            function(x, dim, out=out)
        torch.testing.assert_close(values.cpu(), wanted, rtol=0, atol=0, equal_nan=True)
        for its_values, its_places in ((values, places), out):
            found = x.gather(dim, its_places.unsqueeze(dim)).squeeze(dim)
            torch.testing.assert_close(found, its_values, rtol=0, atol=0, equal_nan=True)
    rows = [row for row in nereid.ops.report() if row.overload.partition(".")[0] in ("median", "nanmedian", "mode")]
    assert len(rows) >= 3 and all(row.route == "nereid" for row in rows), nereid.ops.report()


def test_of_all_elements(target):
    for x in (torch.tensor([3.0, float("nan"), 1.0, 2.0]), torch.tensor([float("nan")] * 2), torch.arange(5001.0).flip(0).view(3, 1667).t(), torch.tensor(7.0)):
        for function in (torch.median, torch.nanmedian):
            wanted = function(x)
            with nereid.ops.use():
                found = function(x.to(target))
            torch.testing.assert_close(found.cpu(), wanted, rtol=0, atol=0, equal_nan=True)
    assert all(row.route == "nereid" for row in nereid.ops.report() if "median" in row.overload)

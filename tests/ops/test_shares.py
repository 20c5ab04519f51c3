"""Are shares of attention the sums that they are said to be?"""

import torch

from lit_attn.ops import shares

C, H, N, M, A, G = 5, 3, 7, 11, 2, 4


def test_attention_by_groups_of_sources_and_of_targets():
    torch.manual_seed(0)
    weights = torch.rand(C, H, N, M, dtype=torch.float64)
    sources, targets = torch.rand(C, M, G) < 0.4, torch.rand(C, N, A) < 0.5
    by_source = shares.by_group(weights, sources)
    found = shares.from_groups(by_source, targets)
    assert found.shape == (A, G, H)
    for a in range(A):
        for g in range(G):
            for h in range(H):
                each = [
                    float(weights[c, h, n, m])
                    for c in range(C)
                    for n in range(N)
                    for m in range(M)
                    if targets[c, n, a] and sources[c, m, g]
                ]
                assert abs(float(found[a, g, h]) - sum(each)) < 1e-12
    torch.testing.assert_close(shares.by_group(weights.float(), sources), by_source, rtol=0, atol=1e-6)

"""What is known of a device."""

import pytest

from training.devices import peak_flops_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A10G", 70e12),
        ("NVIDIA A10", None),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA GH200 480GB", 989e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GB200", 2.5e15),
        ("NVIDIA RTX A4000", None),
        ("Tesla T4", None),
    ],
)
def test_a_name_is_matched_by_its_words(name, expected):
    """An L40 is no L4, and a name that only begins alike is not known."""
    assert peak_flops_of(name) == expected

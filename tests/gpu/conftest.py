"""Tests of this folder need a CUDA device; without one they are deselected."""

import pytest
import torch


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if torch.cuda.is_available() or config.option.collectonly:
        return
    needy = [item for item in items if item.get_closest_marker("gpu")]
    config.hook.pytest_deselected(items=needy)
    items[:] = [item for item in items if item not in needy]

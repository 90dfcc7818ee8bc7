"""The shipped tables are what the generator makes."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from assay.kernels.text.unicode import PATH
from tests.kernels import unicode14_tables as unicode14


@pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0",
    reason=f"this Python has Unicode {unicodedata.unidata_version}; the tables are generated under 14.0 (Python 3.11)",
)
def test_shipped_tables_are_generated():
    built = unicode14.build()
    with np.load(PATH) as shipped:
        assert set(shipped.files) == set(built)
        for name, table in built.items():
            assert shipped[name].dtype == table.dtype, name
            np.testing.assert_array_equal(shipped[name], table, err_msg=name)


def test_another_unicode_version_is_refused(monkeypatch):
    monkeypatch.setattr(unicodedata, "unidata_version", "15.0.0")
    with pytest.raises(RuntimeError, match=r"14\.0, this Python has 15\.0\.0"):
        unicode14.build()

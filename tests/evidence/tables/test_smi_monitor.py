from tests.evidence.tables.text import listed, readings, used_total


def test_dmon_columns_change_and_headers_repeat():
    text = """\
# gpu     fb   bar1   ccpm
# Idx     MB     MB     MB
    0  62123      4      0
    1      4      1      0
# gpu     sm    mem    enc    dec    jpg    ofa     fb   bar1   ccpm
# Idx      %      %      %      %      %      %     MB     MB     MB
    0    100     50      0      0      0      0  70000      4      0
"""
    assert used_total(text) == [(0, 62123, None), (1, 4, None), (0, 70000, None)]


def test_dmon_with_time():
    text = """\
#Date       Time        gpu     fb   bar1   ccpm
#YYYYMMDD   HH:MM:SS    Idx     MB     MB     MB
 20250304   09:10:00      0    100      4      0
"""
    (one,) = readings(text)
    assert one.time == 1741079400.0  # 2025-03-04 09:10:00 UTC


def test_dmon_without_memory_and_other_lines():
    assert used_total("# gpu     sm    mem\n# Idx      %      %\n    0     10      5\n") == []
    text = (
        "# gpu     fb   bar1\n# Idx     MB     MB\nepoch 3 done\n    0      -      4\n    0      7      4\n"
    )
    assert used_total(text) == [(0, 7, None)]


def test_pmon():
    text = """\
# gpu         pid   type     fb   ccpm    command
# Idx           #    C/G     MB     MB    name
    0      22041     C   18851      0    python
    1          -     -       -      -    -
"""
    assert listed(text) == [(0, 22041, "python", 18851)]

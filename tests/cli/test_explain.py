from __future__ import annotations

import json

import pytest

from oomph.diagnose.model import Outcome
from tests.cli.fakes import diagnosis


def test_a_failed_job_exits_with_one(run, engine):
    result = run("explain", "train.log")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "text: the answer\n", "")
    assert engine.asked[0]["paths"] == ("train.log",)


@pytest.mark.parametrize("outcome", [Outcome.RECOVERED, Outcome.NO_OOM])
def test_a_job_that_did_not_fail_exits_with_zero(run, engine, outcome):
    engine.answer = diagnosis(outcome)
    assert run("explain", "train.log").exit_code == 0


def test_exit_zero_hides_findings_but_not_errors(run, engine):
    assert run("explain", "--exit-zero", "train.log").exit_code == 0
    engine.answer = OSError(2, "No such file or directory", "train.log")
    assert run("explain", "--exit-zero", "train.log").exit_code == 2


def test_several_paths_go_to_the_engine_in_order(run, engine):
    run("explain", "b.log", "a.log", "-")
    assert engine.asked[0]["paths"] == ("b.log", "a.log", "-")


def test_no_path_and_a_pipe_reads_standard_input(run, engine):
    result = run("explain", stdin="CUDA out of memory")
    assert result.exit_code == 1
    assert engine.asked[0]["paths"] == ("-",)
    assert engine.asked[0]["stdin"].read() == b"CUDA out of memory"


def test_no_path_and_a_terminal_is_a_usage_error(run, engine, monkeypatch):
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True)
    result = run("explain")
    assert result.exit_code == 2
    assert "Usage: oomph explain" in result.stderr
    assert engine.asked == []


@pytest.mark.parametrize("name", ["text", "json", "markdown", "sarif", "github"])
def test_every_format_has_its_renderer(run, engine, name):
    assert run("explain", "--format", name, "train.log").stdout == f"{name}: the answer\n"


def test_options_reach_the_renderer(run, engine):
    run("explain", "--redact", "--rank", "2", "--all", "--explain-evidence", "--color", "always", "train.log")
    options = engine.options[0]
    assert (options.redact, options.rank, options.all_incidents, options.explain_evidence) == (
        True,
        2,
        True,
        True,
    )
    assert (options.colour, options.width, options.unicode) == (True, 80, True)


def test_only_text_is_coloured(run, engine):
    run("explain", "--color", "always", "--format", "json", "train.log")
    assert engine.options[0].colour is False


def test_a_pipe_is_not_coloured(run, engine):
    run("explain", "train.log")
    assert engine.options[0].colour is False


def test_force_color_and_no_color(run, engine, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    run("explain", "train.log")
    monkeypatch.setenv("NO_COLOR", "1")
    run("explain", "train.log")
    assert [options.colour for options in engine.options] == [True, False]


def test_a_rank_that_the_input_does_not_know(run, engine):
    result = run("explain", "--rank", "9", "train.log")
    assert result.exit_code == 2
    assert result.stderr == "oomph: --rank 9: failures are known of rank 2, 3\n"
    assert run("explain", "--rank", "3", "train.log").exit_code == 1  # died of rank 2's failure


def test_a_rank_where_none_is_named(run, engine):
    engine.answer = diagnosis(Outcome.NO_OOM, rank=0)
    object.__setattr__(engine.answer, "ranks", type(engine.answer.ranks)(first=None, how="no rank"))
    assert "no rank is named" in run("explain", "--rank", "0", "train.log").stderr


def test_verbose_says_what_was_read(run, engine):
    result = run("explain", "-v", "train.log")
    assert result.stdout == "text: the answer\n"
    assert "read train.log: 1,234 bytes" in result.stderr
    assert "read" not in run("explain", "-v", "-q", "train.log").stderr


class TestOutputFile:
    def test_the_answer_goes_to_the_file_and_a_note_to_stderr(self, run, engine, tmp_path):
        result = run("explain", "-o", "answer.json", "--format", "json", "train.log")
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", "wrote answer.json\n")
        assert (tmp_path / "answer.json").read_text(encoding="utf-8") == "json: the answer\n"
        assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]

    def test_quiet_writes_no_note(self, run, engine):
        assert run("explain", "-q", "-o", "answer.txt", "train.log").stderr == ""

    def test_a_file_is_replaced_and_keeps_its_mode(self, run, engine, tmp_path):
        target = tmp_path / "answer.txt"
        target.write_text("old", encoding="utf-8")
        target.chmod(0o640)
        run("explain", "-o", "answer.txt", "train.log")
        assert target.read_text(encoding="utf-8") == "text: the answer\n"
        assert target.stat().st_mode & 0o777 == 0o640

    def test_characters_outside_ascii_are_utf_8(self, run, engine, tmp_path):
        engine.text = "█ é \udc80"
        run("explain", "-o", "answer.txt", "train.log")
        assert (tmp_path / "answer.txt").read_bytes() == "text: █ é ?\n".encode()

    def test_a_file_is_not_coloured_unless_asked(self, run, engine, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        run("explain", "-o", "answer.txt", "train.log")
        run("explain", "-o", "answer.txt", "--color", "always", "train.log")
        assert [options.colour for options in engine.options] == [False, True]

    def test_a_dash_is_standard_output(self, run, engine):
        assert run("explain", "-o", "-", "train.log").stdout == "text: the answer\n"

    def test_a_link_goes_on_pointing_at_its_file(self, run, engine, tmp_path):
        (tmp_path / "real.txt").write_text("old", encoding="utf-8")
        (tmp_path / "link.txt").symlink_to("real.txt")
        run("explain", "-o", "link.txt", "train.log")
        assert (tmp_path / "link.txt").is_symlink()
        assert (tmp_path / "real.txt").read_text(encoding="utf-8") == "text: the answer\n"

    def test_what_is_no_regular_file_is_left_alone(self, run, engine, tmp_path):
        (tmp_path / "folder").mkdir()
        result = run("explain", "-o", "folder", "train.log")
        assert result.exit_code == 2
        assert "not a regular file" in result.stderr
        assert engine.asked == []

    def test_an_input_is_never_overwritten(self, run, engine, tmp_path):
        (tmp_path / "train.log").write_text("precious", encoding="utf-8")
        result = run("explain", "-o", "./train.log", "train.log")
        assert result.exit_code == 2
        assert "one of the inputs" in result.stderr
        assert (tmp_path / "train.log").read_text(encoding="utf-8") == "precious"

    def test_a_missing_folder_is_said_before_any_work(self, run, engine):
        result = run("explain", "-o", "missing/answer.txt", "train.log")
        assert result.exit_code == 2
        assert "does not exist" in result.stderr
        assert engine.asked == []


class TestRuleSelection:
    def test_lists_beginnings_and_any_case(self, run, engine):
        run("explain", "--select", "oom2,OOM301", "--ignore", "OOM202", "train.log")
        assert engine.asked[0]["select"] == ("OOM201", "OOM202", "OOM301")
        assert engine.asked[0]["ignore"] == ("OOM202",)

    def test_the_option_may_be_repeated(self, run, engine):
        run("explain", "--select", "OOM201", "--select", "OOM301", "train.log")
        assert engine.asked[0]["select"] == ("OOM201", "OOM301")

    def test_without_them_all_rules_count(self, run, engine):
        run("explain", "train.log")
        assert (engine.asked[0]["select"], engine.asked[0]["ignore"]) == ((), ())

    def test_a_code_that_no_rule_has(self, run, engine):
        result = run("explain", "--select", "OOM9", "train.log")
        assert result.exit_code == 2
        assert "--select" in result.stderr
        assert "'OOM9'" in result.stderr
        assert engine.asked == []


class TestSettings:
    def test_pyproject(self, run, engine, tmp_path):
        (tmp_path / "pyproject.toml").write_text(
            '[tool.oomph]\nselect = ["OOM2"]\nignore = ["OOM202"]\nformat = "json"\n', encoding="utf-8"
        )
        result = run("explain", "train.log")
        assert result.stdout == "json: the answer\n"
        assert engine.asked[0]["select"] == ("OOM201", "OOM202")
        assert engine.asked[0]["ignore"] == ("OOM202",)

    @pytest.mark.parametrize("header", ["", "[tool.oomph]\n"])
    def test_oomph_toml_wins(self, run, engine, tmp_path, header):
        (tmp_path / "pyproject.toml").write_text('[tool.oomph]\nformat = "json"\n', encoding="utf-8")
        (tmp_path / "oomph.toml").write_text(header + 'format = "markdown"\n', encoding="utf-8")
        assert run("explain", "train.log").stdout == "markdown: the answer\n"

    def test_the_command_line_wins_over_both(self, run, engine, tmp_path):
        (tmp_path / "oomph.toml").write_text('format = "json"\nselect = ["OOM2"]\n', encoding="utf-8")
        result = run("explain", "--format", "text", "--select", "OOM301", "train.log")
        assert result.stdout == "text: the answer\n"
        assert engine.asked[0]["select"] == ("OOM301",)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ('colour = "red"', "unknown key 'colour'"),
            ('format = "yaml"', "format is 'yaml'"),
            ('select = "OOM2"', "select must be a list"),
            ("ignore = [1]", "ignore must be a list"),
            ("format = ", "not valid TOML"),
            ('select = ["OOM9"]', "oomph.toml: select"),
            ("tool.oomph = 3", "must be a table"),
        ],
    )
    def test_what_makes_no_sense_is_said_with_the_file(self, run, engine, tmp_path, content, words):
        (tmp_path / "oomph.toml").write_text(content + "\n", encoding="utf-8")
        result = run("explain", "train.log")
        assert result.exit_code == 2
        assert result.stderr.startswith("oomph: oomph.toml: ")
        assert words in result.stderr

    def test_a_damaged_pyproject_of_somebody_else_is_no_obstacle(self, run, engine, tmp_path):
        (tmp_path / "pyproject.toml").write_bytes(b"[project\nname = \xff")
        assert run("explain", "train.log").exit_code == 1

    def test_a_pyproject_that_only_mentions_oomph(self, run, engine, tmp_path):
        (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["oomph"]\n', encoding="utf-8")
        assert run("explain", "train.log").stdout == "text: the answer\n"


def test_json_of_the_rules_is_json(run, engine):
    codes = [rule["code"] for rule in json.loads(run("rules", "--format", "json").stdout)]
    assert codes == ["OOM201", "OOM202", "OOM301"]

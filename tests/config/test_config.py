"""Sources of settings: their precedence, the origin of each setting, and what is invalid."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from assay import InvalidSetting, ScoreSettings
from assay.kernels.json_columns import MAX_STEPS_BYTES
from assay.service.config import Config, load
from assay.service.settings import NULLABLE, cpu_quotas
from assay.service.wording import in_this_shell, install_command


def written(tmp_path, text):
    path = tmp_path / "assay.toml"
    path.write_text(text, encoding="utf-8")
    return path


def issues(**layers):
    with pytest.raises(InvalidSetting) as raised:
        load(**{"flags": {}, "environ": {}} | layers)
    return {(issue.path, issue.reason) for issue in raised.value.issues}


def test_defaults():
    config = load({}, {})
    assert config == Config()
    assert (config.server.host, config.server.port, config.server.uds) == ("127.0.0.1", 8000, None)
    assert config.score == ScoreSettings()
    assert config.origin("port") == "default"


def test_flags_win_over_environment_over_file_over_defaults(tmp_path):
    path = written(tmp_path, "[server]\nport = 1\nthreads = 3\nbacklog = 5\n[score]\norder = 'lcs'\nmax_steps = 7\n")
    environ = {"ASSAY_PORT": "2", "ASSAY_THREADS": "4", "ASSAY_MAX_STEPS": "8", "ASSAY_ROWS": "rows", "OTHER": "x"}
    config = load({"port": 3, "max_steps": 9, "host": None}, environ, path)
    assert (config.server.port, config.server.threads, config.server.backlog) == (3, 4, 5)
    assert (config.score.max_steps, config.score.order, config.server.host) == (9, "lcs", "127.0.0.1")
    origins = {name: config.origin(name) for name in ("port", "threads", "backlog", "max_steps", "order", "host")}
    assert origins == {
        "port": "flag --port",
        "threads": "environment ASSAY_THREADS",
        "backlog": str(path),
        "max_steps": "flag --max-steps",
        "order": str(path),
        "host": "default",
    }


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("ASSAY_USE_ORDER", "off", False),
        ("ASSAY_MIN_COVERAGE", "0.5", 0.5),
        ("ASSAY_REWARD_SCALE", "shift", "shift"),
    ],
)
def test_texts_of_the_environment(variable, text, value):
    config = load({}, {variable: text})
    settings = {**config.server.model_dump(), **config.score.model_dump()}
    setting = settings[variable.removeprefix("ASSAY_").lower()]
    assert (setting, type(setting)) == (value, type(value))


@pytest.mark.parametrize("name", sorted(NULLABLE))
def test_none_stands_for_null_where_there_is_only_text(name, tmp_path):
    """Also over another source's number; elsewhere null is null, and a path may be called none."""
    variable, flag = f"ASSAY_{name.upper()}", f"--{name.replace('_', '-')}"
    file = written(tmp_path, f"[server]\nuds = 'none'\n[score]\n{name} = 'none'\n")
    number = tmp_path / "number.toml"
    number.write_text(f"[score]\n{name} = 3\n", encoding="utf-8")
    for config, origin in (
        (load({name: "none"}, {variable: "2"}, number), f"flag {flag}"),
        (load({}, {variable: "none"}, number), f"environment {variable}"),
        (load({}, {}, file), str(file)),
    ):
        assert (config.score, config.origin(name)) == (ScoreSettings(), origin)
    assert load({}, {}, file).server.uds == "none"
    for flags, variables, value in (({name: 0}, {variable: "2"}, 0), ({}, {variable: "2"}, 2), ({}, {}, 3)):
        assert getattr(load(flags, variables, number).score, name) == value
    for text in ("None", "null", "", "off"):
        with pytest.raises(InvalidSetting, match=r"must be an integer, or null \(as text: none\)"):
            load({}, {variable: text})
    with pytest.raises(InvalidSetting, match=rf"config\.{name}: must be an integer, or null"):
        ScoreSettings.checked({name: "none"})


def test_minus_zero_is_zero_wherever_it_comes_from(tmp_path):
    """It is the same setting, so its digest and what is shown of it are the same."""
    zero = load({"min_coverage": 0.0, "drain_seconds": 0.0}, {})
    file = written(tmp_path, "[server]\ndrain_seconds = -0.0\n[score]\nmin_coverage = -0.0\n")
    for config in (
        load({"min_coverage": -0.0, "drain_seconds": -0.0}, {}),
        load({}, {"ASSAY_MIN_COVERAGE": "-0.0", "ASSAY_DRAIN_SECONDS": "-0"}),
        load({}, {}, file),
    ):
        assert config.score.config_id == zero.score.config_id
        assert str(config.score) == str(zero.score)
        assert str(config.server) == str(zero.server)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("ASSAY_PORT", "eighty"),
        ("ASSAY_PORT", "70000"),
        ("ASSAY_PORT", ""),
        ("ASSAY_THREADS", "0"),
        ("ASSAY_DEADLINE_SECONDS", "inf"),
        ("ASSAY_ORDER", "LCS"),
        ("ASSAY_ADVANTAGE_DDOF", "2"),
        ("ASSAY_MIN_COVERAGE", "nan"),
        ("ASSAY_API_KEYS", "two words"),
    ],
)
def test_wrong_values_are_named_by_their_variable(variable, text):
    assert issues(environ={variable: text}) == {(variable, "invalid_setting")}


def test_every_wrong_place_is_named(tmp_path):
    path = written(tmp_path, "port = 1\n[server]\nprot = 1\nport = '80'\n[score]\norder = 'x'\n[other]\nx = 1\n")
    errors = issues(flags={"threads": 0, "nope": 1}, environ={"ASSAY_PROT": "1", "ASSAY_MAX_STEPS": "0"}, path=path)
    assert errors == {
        (f"{path}: port", "unknown_setting"),
        (f"{path}: other", "unknown_setting"),
        (f"{path}: server.prot", "unknown_setting"),
        (f"{path}: server.port", "invalid_setting"),
        (f"{path}: score.order", "invalid_setting"),
        ("ASSAY_PROT", "unknown_setting"),
        ("ASSAY_MAX_STEPS", "invalid_setting"),
        ("--threads", "invalid_setting"),
        ("--nope", "unknown_setting"),
    }


def test_every_issue_says_what_is_right(tmp_path):
    """The limit with the value, the name or the table that was meant; never a key."""
    path = written(tmp_path, 'order = "lcs"\n[server]\nprot = 1\nmin_coverage = 1\n[scroe]\n')
    environ = {"ASSAY_MIN_COVRAGE": "1", "ASSAY_ORDER": "lsc", "ASSAY_API_KEYS": "two words"}
    with pytest.raises(InvalidSetting) as raised:
        load({"min_coverage": 1.5}, environ, path)
    details = {issue.path.removeprefix(f"{path}: "): issue.detail for issue in raised.value.issues}
    for place, words in (
        *(("order", "[score]"), ("server.min_coverage", "[score]"), ("scroe", "did you mean score?")),
        *(("server.prot", "did you mean port?"), ("ASSAY_MIN_COVRAGE", "did you mean ASSAY_MIN_COVERAGE?")),
        *(("ASSAY_ORDER", "strict, lcs, got 'lsc'"), ("--min-coverage", "at most 1, got 1.5")),
    ):
        assert words in details.pop(place)
    assert details.keys() == {"ASSAY_API_KEYS"}
    assert "two words" not in str(details)


LINKS = {
    "{}_SERVICE_HOST": "10.0.0.1",
    "{}_SERVICE_PORT": "8000",
    "{}_SERVICE_PORT_METRICS_2": "9000",
    "{}_PORT": "tcp://10.0.0.1:8000",
    "{}_PORT_8000_TCP": "tcp://10.0.0.1:8000",
    "{}_PORT_8000_TCP_PROTO": "tcp",
    "{}_PORT_8000_TCP_ADDR": "10.0.0.1",
    "{}_PORT_53_UDP_ADDR": "fd00::1",
}
"""Variables that Kubernetes sets for a Service of that name."""


def links_of(*services):
    return {name.format(service): value for service in services for name, value in LINKS.items()}


@pytest.mark.parametrize("services", [["ASSAY_SERVICE"], ["ASSAY", "ASSAY_V2_HTTP"]], ids=" ".join)
def test_kubernetes_service_links_are_named_together_with_one_hint(services):
    environ = links_of(*services)
    with pytest.raises(InvalidSetting, match="enableServiceLinks") as raised:
        load({}, {**environ, "ASSAY_ORDR": "lcs", "ASSAY_THREADS": "0", "ASSAY_CLIENT_SERVICE_HOST": "10.0.0.1"})
    details = {issue.path: issue.detail for issue in raised.value.issues}
    assert details.keys() == {", ".join(sorted(environ)), "ASSAY_ORDR", "ASSAY_THREADS"}
    assert [path for path, detail in details.items() if "enableServiceLinks" in detail] == [", ".join(sorted(environ))]


MEANT_AS_SETTINGS = [
    {"ASSAY_SERVICE_PORT": "8000"},
    {"ASSAY_SERVICE_HOST": "0.0.0.0", "ASSAY_SERVICE_PORT_NUMBER": "8000"},
    {"ASSAY_HTTP_PORT": "8000"},
    {"ASSAY_PORT_8000": "tcp"},
    {"ASSAY_PORT": "8000/tcp"},
]


@pytest.mark.parametrize("environ", MEANT_AS_SETTINGS, ids=" ".join)
def test_what_was_meant_as_a_setting_gets_no_such_hint(environ):
    with pytest.raises(InvalidSetting) as raised:
        load({}, environ)
    assert {issue.path for issue in raised.value.issues} == environ.keys()
    assert "Kubernetes" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path):
    for text in ("[server", "[server]\nport = 1\nport = 2"):
        assert issues(path=written(tmp_path, text)) == {(str(tmp_path / "assay.toml"), "not_toml")}
    assert issues(path=tmp_path / "none") == {(str(tmp_path / "none"), "unreadable_file")}
    assert issues(path=tmp_path) == {(str(tmp_path), "unreadable_file")}
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# \xff")
    assert issues(path=latin) == {(str(latin), "not_toml")}
    assert issues(path=written(tmp_path, "server = 1")) == {(f"{tmp_path / 'assay.toml'}: server", "invalid_setting")}


def test_keys_from_environment_and_file_come_together_and_stay_secret(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# one a line\n\n  third \nfourth\n", encoding="utf-8")
    config = load({}, {"ASSAY_API_KEYS": "first, second,", "ASSAY_API_KEYS_FILE": str(keys)})
    assert config.server.api_keys == tuple(map(SecretStr, ("first", "second", "third", "fourth")))
    assert "third" not in repr(config)
    assert config.origin("api_keys") == "environment ASSAY_API_KEYS"
    alone = load({}, {"ASSAY_API_KEYS_FILE": str(keys)})
    assert alone.origin("api_keys") == "environment ASSAY_API_KEYS_FILE"
    in_toml = load({}, {}, written(tmp_path, "[server]\napi_keys = ['a', 'b']\n"))
    assert in_toml.server.api_keys == (SecretStr("a"), SecretStr("b"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_keys_come_from_a_regular_file(tmp_path):
    """A service without keys would be open; a pipe without a writer would block."""
    place = "api_keys_file (environment ASSAY_API_KEYS_FILE)"
    paths = [tmp_path / "none", tmp_path, Path("/dev/zero"), tmp_path / "pipe"]
    os.mkfifo(tmp_path / "pipe")
    for k, content in enumerate((b"two words\n", b"\xff\n", b"# nothing but a comment\n")):
        paths.append(tmp_path / f"keys{k}")
        paths[-1].write_bytes(content)
    for path in paths:
        assert issues(environ={"ASSAY_API_KEYS_FILE": str(path)}) == {(place, "unreadable_file")}, path


def test_no_reference_is_longer_than_what_its_steps_may_fill():
    assert load({"max_reference_bytes": int(MAX_STEPS_BYTES)}, {}).server.max_reference_bytes == MAX_STEPS_BYTES
    with pytest.raises(InvalidSetting, match="max-reference-bytes"):
        load({"max_reference_bytes": int(MAX_STEPS_BYTES) + 1}, {})


def test_the_command_that_installs_an_extra_runs_pip_of_this_interpreter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("", str(Path(sys.executable).parent)):
        monkeypatch.setenv("PATH", path)
        python, *arguments = shlex.split(in_this_shell(install_command("lexical")))
        assert python == ("python" if path else sys.executable)
        assert arguments[:3] == ["-m", "pip", "install"]
        assert [name.partition("<")[0].partition(">")[0] for name in arguments[3:]] == ["nltk", "sacrebleu"]
    assert [name[:3] for name in shlex.split(install_command("ray"))[4:]] == ["pya", "ray"]


def test_the_file_may_be_named_by_the_environment(tmp_path):
    path = written(tmp_path, "[server]\nport = 1\n")
    assert load({}, {"ASSAY_CONFIG": str(path)}).server.port == 1


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/", {"cpu.max": "max 100000"}, []),
        ("0::/", {"cpu.max": "150000 100000"}, [1.5]),
        (
            "0::/a/b",
            {"a/b/cpu.max": "max 100000", "a/cpu.max": "400000 100000", "cpu.max": "800000 100000"},
            [4.0, 8.0],
        ),
        ("0::/elsewhere", {"cpu.max": "50000 100000"}, [0.5]),
        ("4:cpu,cpuacct:/a\n0::/", {"cpu/a/cpu.cfs_quota_us": "200000", "cpu/a/cpu.cfs_period_us": "100000"}, [2.0]),
        ("4:cpu:/\n3:memory:/a", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, []),
        ("0::/", {"cpu.max": "half a core"}, []),
    ],
)
def test_quotas_of_cgroups(tmp_path, cgroup, files, expected):
    for name, content in (("proc/self/cgroup", cgroup), *((f"sys/fs/cgroup/{name}", files[name]) for name in files)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    assert list(cpu_quotas(tmp_path)) == expected


def test_no_quotas_without_cgroups(tmp_path):
    assert list(cpu_quotas(tmp_path)) == []

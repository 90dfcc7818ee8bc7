"""Sources of settings: their precedence, the origin of each setting, and what is invalid."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from assay import InvalidSetting, ScoreSettings
from assay.kernels.json_columns import MAX_STEPS_BYTES
from assay.service.config import Config, load


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
        ("ASSAY_ADVANTAGE_DDOF", "0", 0),
        ("ASSAY_MIN_COVERAGE", "0.5", 0.5),
        ("ASSAY_REWARD_SCALE", "shift", "shift"),
        ("ASSAY_UDS", "/run/assay.sock", "/run/assay.sock"),
    ],
)
def test_texts_of_the_environment(variable, text, value):
    config = load({}, {variable: text})
    settings = {**config.server.model_dump(), **config.score.model_dump()}
    setting = settings[variable.removeprefix("ASSAY_").lower()]
    assert (setting, type(setting)) == (value, type(value))


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
    found = issues(flags={"threads": 0, "nope": 1}, environ={"ASSAY_PROT": "1", "ASSAY_MAX_STEPS": "0"}, path=path)
    assert found == {
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
    environ = {
        "ASSAY_MIN_COVRAGE": "1",
        "ASSAY_ORDER": "lsc",
        "ASSAY_PORT": "eighty",
        "ASSAY_API_KEYS": "two words",
        "ASSAY_USE_ORDER": "x" * 100,
    }
    with pytest.raises(InvalidSetting) as raised:
        load({"min_coverage": 1.5, "position_decay": 0.0}, environ, path)
    details = {issue.path.removeprefix(f"{path}: "): issue.detail for issue in raised.value.issues}
    assert details == {
        "order": "put order under [score]",
        "server.prot": "there is no setting of this name; did you mean port?",
        "server.min_coverage": "put min_coverage under [score]",
        "scroe": "only the tables [server] and [score] are known; did you mean score?",
        "ASSAY_MIN_COVRAGE": "there is no setting of this name; did you mean ASSAY_MIN_COVERAGE?",
        "ASSAY_ORDER": "must be one of: strict, lcs, got 'lsc'",
        "ASSAY_PORT": "must be an integer, got 'eighty'",
        "ASSAY_API_KEYS": "a key must consist of visible ASCII characters without spaces",
        "ASSAY_USE_ORDER": f"must be true or false, got '{'x' * 59}…",
        "--min-coverage": "must be at most 1, got 1.5",
        "--position-decay": "must be more than 0, got 0.0",
    }


LINKS = {
    "{}_SERVICE_HOST": "10.0.0.1",
    "{}_SERVICE_PORT": "8000",
    "{}_SERVICE_PORT_HTTP": "8000",
    "{}_SERVICE_PORT_METRICS_2": "9000",
    "{}_PORT": "tcp://10.0.0.1:8000",
    "{}_PORT_8000_TCP": "tcp://10.0.0.1:8000",
    "{}_PORT_8000_TCP_PROTO": "tcp",
    "{}_PORT_8000_TCP_PORT": "8000",
    "{}_PORT_8000_TCP_ADDR": "10.0.0.1",
    "{}_PORT_53_UDP": "udp://[fd00::1]:53",
    "{}_PORT_53_UDP_ADDR": "fd00::1",
}
"""Variables that Kubernetes sets for a Service of that name."""


def links_of(*services):
    return {name.format(service): value for service in services for name, value in LINKS.items()}


@pytest.mark.parametrize(
    "services", [["ASSAY"], ["ASSAY_CANARY"], ["ASSAY_SERVICE"], ["ASSAY", "ASSAY_V2_HTTP"]], ids=" ".join
)
def test_kubernetes_service_links_are_named_together_with_one_hint(services):
    environ = links_of(*services)
    with pytest.raises(InvalidSetting, match="enableServiceLinks") as raised:
        load({}, {**environ, "ASSAY_ORDR": "lcs", "ASSAY_THREADS": "0", "ASSAY_CLIENT_SERVICE_HOST": "10.0.0.1"})
    found = {issue.path: issue.detail for issue in raised.value.issues}
    assert found.keys() == {", ".join(sorted(environ)), "ASSAY_ORDR", "ASSAY_THREADS"}
    assert [path for path, detail in found.items() if "enableServiceLinks" in detail] == [", ".join(sorted(environ))]


def test_one_service_link_beside_a_port_that_was_set():
    """The container's own `env` overrides what Kubernetes adds."""
    with pytest.raises(InvalidSetting, match="enableServiceLinks") as raised:
        load({}, links_of("ASSAY") | {"ASSAY_PORT": "8000"})
    (issue,) = raised.value.issues
    assert "ASSAY_PORT," not in issue.path
    with pytest.raises(InvalidSetting, match="enableServiceLinks"):
        load({}, {"ASSAY_PORT": "tcp://10.0.0.1:8000"})


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

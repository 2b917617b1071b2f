"""``headway keys``: what goes to which stream, what it refuses, and what it lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.keys import KeysFile
from headway.keys.key_ring import is_key
from headway_policies.entitlement import Entitlement
from headway_tools.cli import main


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the environment names; it does not exist yet."""
    file = tmp_path / "keys.toml"
    monkeypatch.setenv("HEADWAY_KEYS_FILE", str(file))
    return file


def made(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The key that a command has made, and what it says of it."""
    assert main(["keys", *words]) == 0
    output = capsys.readouterr()
    assert output.out.count("\n") == 1
    assert is_key(output.out.rstrip("\n"))
    assert output.out.strip() not in output.err
    return output.out.strip(), output.err


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, object]]]:
    assert main(["keys", "list", "--json"]) == 0
    found: dict[str, list[dict[str, object]]] = json.loads(capsys.readouterr().out)
    return found


def test_a_session_with_one_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key of a new tenant, another one, its successor, and the end of the first."""
    words = ["--classes", "normal, batch", "--default-class", "batch", "--share", "3", "--requests-per-minute", "60"]
    first, said = made("add", "--tenant", "team", *words, "--note", "Ada's", capsys=capsys)
    assert f"{path}: key team-1 of tenant team added, never expires" in said
    second, said = made("add", "--tenant", "team", "--id", "laptop", "--expires", "90d", capsys=capsys)
    assert "key laptop of tenant team added, expires 2" in said
    third, said = made("rotate", "team-1", "--grace", "0s", capsys=capsys)
    assert "key team-1~2 of tenant team added, never expires; team-1 expires 2" in said
    file = KeysFile(str(path))
    team = Entitlement("team", frozenset({"normal", "batch"}), "batch", 3.0, 60.0)
    now_s = file.ring.keys[-1].created.timestamp() + 1
    found = [file.ring.entitlement_of(f"Bearer {key}", None, now_s) for key in (first, second, third)]
    assert found == [None, ("laptop", team), ("team-1~2", team)]

    keys = listed(capsys)["keys"]
    assert [(key["id"], key["expired"], key["note"]) for key in keys] == [
        ("team-1", True, "Ada's"), ("laptop", False, ""), ("team-1~2", False, "Ada's"),
    ]  # fmt: skip
    assert main(["keys", "revoke", "team-1"]) == 0
    assert "key team-1 of tenant team revoked" in capsys.readouterr().out
    assert [key["id"] for key in listed(capsys)["keys"]] == ["laptop", "team-1~2"]


def test_the_list_shows_tenants_and_keys_and_no_digest(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As tables."""
    made("add", "--tenant", "chat", "--tokens-per-minute", "2e5", capsys=capsys)
    made("add", "--tenant", "jobs", "--classes", "normal,batch", "--expires", "2w", capsys=capsys)
    with path.open("a", encoding="utf-8") as file:
        file.write("[tenants.chat.caps]\nsequences = 4\n")
    assert main(["keys", "list"]) == 0
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines()]
    assert ["chat", "every", "-", "1", "-", "200000", "sequences", "4", "-"] in rows
    assert ["jobs", "batch,", "normal", "-", "1", "-", "-", "-", "-"] in rows
    assert [row[0] for row in rows if row[-3:-1] == ["in", "force"]] == ["chat-1", "jobs-1"]
    assert all(key.digest.hex() not in text for key in KeysFile(str(path)).ring.keys)


def test_the_budget_of_a_tenant_and_of_an_organisation(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changed by the command, and seen in the list; what is wrong changes nothing."""
    made("add", "--tenant", "jobs", capsys=capsys)
    assert main(["keys", "budget", "jobs", "tokens_per_day=2000000", "soft_ratio=0.8", "borrow=true"]) == 0
    assert main(["keys", "budget", "acme", "--organisation", "tokens_per_month=9e9"]) == 0
    assert "a running server knows it within two seconds" in capsys.readouterr().out
    path.write_text(path.read_text().replace("[tenants.jobs]", '[tenants.jobs]\norganisation = "acme"'))
    assert listed(capsys)["tenants"][0]["budgets"] == [
        {
            "of": "tenant jobs",
            "tokens_per_day": 2_000_000,
            "soft_ratio": 0.8,
            "borrow": True,
            "count_only": False,
            "time_zone": "UTC",
        },
        {
            "of": "organisation acme",
            "tokens_per_month": 9e9,
            "soft_ratio": None,
            "borrow": False,
            "count_only": False,
            "time_zone": "UTC",
        },
    ]
    assert main(["keys", "list"]) == 0
    assert "tokens/day 2000000, tokens/month 9000000000 together" in capsys.readouterr().out
    assert main(["keys", "budget", "jobs", "tokens_per_day=off"]) == 0
    before = path.read_text()
    for words in ("jobs tokens_per_week=5", "jobs tokens_per_day", "jobs soft_ratio=x", "nobody borrow=true"):
        capsys.readouterr()
        assert main(["keys", "budget", *words.split()]) == 2
        assert capsys.readouterr().err.strip()
    assert path.read_text() == before
    assert "tokens_per_day" not in before


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "no tenants; make one"), ("[tenants.a]\n", "no keys; make one")],
    ids=["no tenants", "no keys"],
)
def test_an_empty_list_says_how_to_begin(
    path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty list is no error."""
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    assert main(["keys", "list"]) == 0
    assert said in capsys.readouterr().out


def test_a_file_that_others_can_read_is_warned_of(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the list."""
    path.write_text("[tenants.a]\n", encoding="utf-8")
    path.chmod(0o644)
    assert main(["keys", "list"]) == 0
    assert "warning: " in capsys.readouterr().err


def test_the_option_comes_before_the_environment(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For every action."""
    other = tmp_path / "other.toml"
    made("add", "--tenant", "a", "--file", str(other), capsys=capsys)
    assert not path.exists()
    for words in (["list"], ["rotate", "a-1"], ["revoke", "a-1"]):
        assert main(["keys", *words, "--file", str(other)]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "required"),
        (["list"], "cannot be read: No such file"),
        (["revoke", "a"], "cannot be read: No such file"),
        (["add"], "--tenant"),
        (["add", "--tenant", "a b"], "the name of a tenant must be"),
        (["add", "--tenant", "a", "--expires", "0d"], "a time above 0 is needed"),
        (["add", "--tenant", "a", "--expires", "soon"], "a time such as 30m, 24h or 90d is needed"),
        (["add", "--tenant", "a", "--expires", "11000d"], "ten years at most"),
        (["add", "--tenant", "a", "--expires", "٣d"], "a time such as"),
        (["add", "--tenant", "a", "--share", "0"], "share: must be a number from 0.01 to 100"),
        (["add", "--tenant", "a", "--share", "nan"], "share: must be a number from 0.01 to 100"),
        (["add", "--tenant", "a", "--classes", "realtme"], "there is no class 'realtme' in any preset here; "),
        (["add", "--tenant", "a", "--classes", "realtme"], "did you mean realtime? (for the classes of your own"),
        (["add", "--tenant", "a", "--default-class", "gold"], "the classes are: realtime, normal, batch (for"),
        (["add", "--tenant", "a", "--classes", ","], "there is no class ''"),
        (
            ["add", "--tenant", "a", "--classes", "batch", "--default-class", "normal"],
            "default_class: must be the name",
        ),
        (["rotate", "a", "--grace", "-1h"], "--grace"),
    ],
)
def test_what_is_wrong_is_one_line_and_no_key(
    path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing on standard output, and no file."""
    assert main(["keys", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert said in output.err
    assert not path.exists()


def test_without_a_file_the_way_to_name_one_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option and the variable."""
    monkeypatch.delenv("HEADWAY_KEYS_FILE", raising=False)
    assert main(["keys", "list"]) == 2
    said = "no keys file; give --file FILE, or set HEADWAY_KEYS_FILE as for the server"
    assert capsys.readouterr().err == f"headway: error: {said}\n"


def test_the_classes_of_presets_of_ones_own_count(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The presets are those of the folder that is named."""
    (tmp_path / "own.toml").write_text(
        'name = "own"\nextends = "balanced"\n[classes.gold]\npriority = 9\nmax_waiting = 9\n'
    )
    words = ["add", "--tenant", "a", "--classes", "gold"]
    assert main(["keys", *words]) == 2
    capsys.readouterr()
    made(*words, "--preset-dir", str(tmp_path), capsys=capsys)

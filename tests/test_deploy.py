"""What is in deploy/ agrees with itself and with the package: ports, users, paths, commands, names of files."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import click
import pytest

from tercet.cli.main import cli

yaml = pytest.importorskip("yaml")  # which schemathesis brings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DOCKERFILE = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICE = (DEPLOY / "tercet.service").read_text(encoding="utf-8")
SERVE = cli.get_command(click.Context(cli), "serve")
assert SERVE is not None
OPTIONS = {parameter.name: parameter for parameter in SERVE.params}
STAGES = re.split(r"^FROM ", DOCKERFILE, flags=re.M)[1:]
IMAGE = STAGES[-1]  # what is shipped


def instructions(stage: str, name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", stage, re.M)


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in instructions(IMAGE, "ENV") for pair in shlex.split(line))


def last_json(name: str) -> list[str]:
    return json.loads(instructions(IMAGE, name)[-1])


def test_every_file_that_is_copied_is_there_and_let_into_the_build() -> None:
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert [name for name in let_in if not (ROOT / name).exists()] == []
    for line in instructions(DOCKERFILE, "COPY"):
        words = [word for word in line.split() if not word.startswith("--")]
        if "--from=" in line:
            continue
        for source in words[:-1]:
            assert (ROOT / source).exists(), line
            assert any(source == name or source.startswith(f"{name}/") for name in let_in), f".dockerignore: {source}"


def test_what_is_installed_is_locked() -> None:
    for line in re.findall(r"pip[^&\n]* install [^&\n]+", DOCKERFILE):
        assert "--require-hashes" in line or ("--no-index" in line and "--no-deps" in line), line
    assert {"requirements/build.lock", "requirements/serve.lock"} <= set(DOCKERFILE.split())


def test_the_image_runs_as_nobody_else_and_writes_to_its_volumes() -> None:
    [user] = instructions(IMAGE, "USER")
    assert re.search(rf"useradd --uid (\d+) .* {user}\b", IMAGE), "a user with a number, which is not root's"
    volumes = last_json("VOLUME")
    [made] = re.findall(rf"install -d -o {user} -g {user} -m 700 (.+)$", IMAGE, re.M)
    assert sorted(made.split()) == sorted(volumes)
    assert environment()["NUMBA_CACHE_DIR"] in volumes
    verb, index, *options = last_json("CMD")
    assert (verb, options) == ("serve", [])
    assert str(Path(index).parent) in volumes, "what is taught is kept beside the index"


def test_its_settings_are_options_of_the_service() -> None:
    for settings in (environment(), COMPOSE["services"]["tercet"]["environment"]):
        for name in settings:
            if name.startswith("TERCET_SERVE_"):
                assert name.removeprefix("TERCET_SERVE_").lower() in OPTIONS, name
            elif name.startswith("TERCET_"):
                assert name in {parameter.envvar for parameter in OPTIONS.values()}, name
    config = re.search(r"ExecStart=\S+ (.+)$", SERVICE, re.M)
    assert config is not None
    words = config[1].split()
    assert (words[0], len(words)) == ("serve", 2)
    assert "\nWorkingDirectory=/etc/tercet\n" in SERVICE


def test_ports_agree() -> None:
    port = environment()["TERCET_SERVE_PORT"]
    assert instructions(IMAGE, "EXPOSE") == [port]
    assert str(OPTIONS["port"].default) == port
    assert f"tercet:{port}" in (DEPLOY / "Caddyfile").read_text()
    assert environment()["TERCET_SERVE_HOST"] == "0.0.0.0"
    assert "ports" not in COMPOSE["services"]["tercet"], "only the proxy is to be reached"


def test_the_compose_file_trusts_its_proxy_and_nobody_else() -> None:
    service, proxy = COMPOSE["services"]["tercet"], COMPOSE["services"]["proxy"]
    trusted = ip_network(service["environment"]["TERCET_SERVE_PROXY"])
    assert str(trusted.network_address) == proxy["networks"]["inside"]["ipv4_address"]
    assert trusted.num_addresses == 1
    network = ip_network(COMPOSE["networks"]["inside"]["ipam"]["config"][0]["subnet"])
    assert trusted.subnet_of(network)  # type: ignore[arg-type]
    assert service["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"]["internal"] is True


def test_the_compose_file_shuts_what_need_not_be_open() -> None:
    service = COMPOSE["services"]["tercet"]
    mounted = {volume.partition(":")[0]: volume.partition(":")[2] for volume in service["volumes"]}
    assert sorted(mounted.values()) == sorted(last_json("VOLUME"))
    assert set(mounted) <= set(COMPOSE["volumes"])
    for one in COMPOSE["services"].values():
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
        assert one["security_opt"] == ["no-new-privileges:true"]
        for volume in one["volumes"]:
            if volume.startswith("./"):
                assert (DEPLOY / volume.partition(":")[0]).exists(), volume
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")


def test_paths_of_the_unit_are_those_it_may_write_to() -> None:
    settings = dict(line.split("=", 1) for line in SERVICE.splitlines() if re.match(r"[A-Z]\w+=", line))
    assert settings["Environment"] == f"NUMBA_CACHE_DIR=/var/cache/{settings['CacheDirectory']}"
    assert settings["ExecStart"].endswith(f" serve /var/lib/{settings['StateDirectory']}/index")
    assert settings["User"] == settings["Group"] != "root"


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_asks_the_service_by_its_name(status: int, code: int) -> None:
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Host"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"the learner stopped")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        output = {
            "TERCET_SERVE_PORT": str(server.server_port),
            "TERCET_SERVE_ALLOW_HOST": "search.example other.example",
        }
        check = [sys.executable, "-I", str(DEPLOY / "healthy.py")]
        done = subprocess.run(check, env=output, capture_output=True, text=True, check=False)
        thread.join()
        nobody = subprocess.run(check, env={"TERCET_SERVE_PORT": "1"}, capture_output=True, text=True, check=False)
    assert asked == [("/health", "search.example")]
    assert (done.returncode, "the learner stopped" in done.stdout + done.stderr) == (code, True)
    assert (nobody.returncode, nobody.stderr[:10]) == (1, "no answer:")

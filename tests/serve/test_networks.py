"""Who an address belongs to, and who is believed to say so."""

from __future__ import annotations

import pytest

from support.serving import made_index, served
from tercet.errors import InputError
from tercet.serve.guard import Access
from tercet.serve.networks import client_address, household, proxies_of, site

GIVEN = {"query": "green avocado", "better": "d3", "worse": "d9"}


@pytest.mark.parametrize(
    ("address", "network", "whole_site"),
    [
        ("10.0.0.1", "10.0.0.1", None),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::", "2001:db8:1::"),
        ("2001:DB8:1:2::", "2001:db8:1:2::", "2001:db8:1::"),
        ("fe80::1%eth0", "fe80::", "fe80::"),
        ("::ffff:10.0.0.1", "10.0.0.1", None),
        ("::1", "::1", None),
        ("local", "local", None),
        ("testclient", "testclient", None),
    ],
)
def test_networks_of_addresses(address, network, whole_site):
    assert (household(address), household(network)) == (network, network)
    assert site(address) == whole_site == site(network)


def test_only_trusted_proxies_say_who_asks():
    proxies = proxies_of(["10.0.0.0/24", "2001:db8::7"])
    assert client_address("192.0.2.1", ["6.6.6.6"], proxies) == "192.0.2.1"
    assert client_address("10.0.0.5", [], proxies) == "10.0.0.5"
    assert client_address("10.0.0.5", ["6.6.6.6, 192.0.2.1"], proxies) == "192.0.2.1"
    assert client_address("10.0.0.5", ["6.6.6.6", "192.0.2.1, 2001:db8::7, 10.0.0.6"], proxies) == "192.0.2.1"
    assert client_address("10.0.0.5", ["2001:db8:5::1"], proxies) == "2001:db8:5::1"
    assert client_address("10.0.0.5", ["[2001:db8:5::1]:443"], proxies) == "2001:db8:5::1"
    for nonsense in ("unknown", "", "1.2.3.4.5", "<script>"):
        assert client_address("10.0.0.5", [f"6.6.6.6, {nonsense}"], proxies) == "10.0.0.5"
    assert client_address("10.0.0.5", ["6.6.6.6"], ()) == "10.0.0.5"
    with pytest.raises(InputError, match=r"such as 10\.0\.0\.5 or"):
        proxies_of(["proxy.example"])
    with pytest.raises(InputError, match="host bits"):
        proxies_of(["10.0.0.5/24"])


@pytest.mark.slow
def test_clients_of_a_trusted_proxy_are_told_apart(tmp_path):
    sent = {"X-Forwarded-For": "6.6.6.6, 2001:db8:1:2::9"}
    for proxies, client in (("10.0.0.1/32", "2001:db8:1:2::"), ("10.9.9.9/32", "10.0.0.1")):
        access = Access(proxies=proxies_of([proxies]))
        with served(tmp_path / f"{client[:4]}.jsonl", made_index(), access=access) as (api, _):
            assert api.post("/prefer", json=GIVEN, headers=sent).status_code == 202
            assert api.get("/versions").json()["versions"][0]["client"] == client

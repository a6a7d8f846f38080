"""Whose login a remote gets that somebody else named: that of the settings which name it, or none.

The libraries that open remotes look for a login in many places of this machine: variables of the environment, ``~/.aws``,
the metadata service of a cloud machine, ``~/.netrc``, keys of SSH and its agent. Whoever writes the settings of a remote
chooses the server that all of this goes to. So a remote that others named is opened with what its settings hold, and
with a login of this user only if he named its address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from caramel.errors import ConfigError, redact_secrets
from caramel.runtime.dvc.settings import USER, load_settings

# What is used of settings that others wrote: where a remote is, and a login that was published with it. Others name files
# of this machine, choose a login of its user, run a command (``bearer_token_command``) or switch encryption off.
_USED = {
    "url", "endpointurl", "oss_endpoint", "region", "account_name", "projectname", "port", "verify",
    "allow_anonymous_login", "auth", "user", "password", "access_key_id", "secret_access_key", "session_token", "sas_token",
    "version_aware", "worktree",
}  # fmt: skip
_PORTS = {"http": 80, "https": 443, "ssh": 22, "webdav": 80, "webdavs": 443}
# Schemes of remotes that can be opened so that their library looks for no login; a folder has none. SSH offers all keys of the user, those for
# Azure and OSS take logins out of the environment whatever they are given, Google Drive and HDFS have none without.
PUBLIC = ("", "file", "s3", "gs", "http", "https", "webdav", "webdavs")


def select_allowed_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is used of a remote's settings that others wrote."""
    return {name: value for name, value in options.items() if name in _USED}


def get_login_address(options: Mapping[str, Any]) -> str | None:
    """Return where a login for a remote is sent to: ``SCHEME://HOST[:PORT]``, ``s3://BUCKET`` of one without an endpoint.

    Args:
        options: its settings; ``remote://`` is resolved already.

    Returns:
        None of a folder of this machine.

    Raises:
        ConfigError: it has an address that is none.
    """
    if account := options.get("account_name"):
        return parse_remote_address(f"https://{account}.blob.core.windows.net")  # as adlfs forms it
    url = str(options.get("endpointurl") or options.get("oss_endpoint") or options["url"])
    return parse_remote_address(url, options.get("port")) if "://" in url and urlsplit(url).netloc else None


def parse_remote_address(text: str, port: int | None = None) -> str:
    """Return the address in a URL, in the form of ``login_address``.

    Raises:
        ConfigError: it names no host.
    """
    try:
        parts = urlsplit(text)
        port = port or parts.port
        if parts.scheme and parts.hostname:
            usual = port is None or port == _PORTS.get(parts.scheme)
            return f"{parts.scheme}://{parts.hostname}" + ("" if usual else f":{port}")
    except ValueError:  # of a port or a bracket
        pass
    raise ConfigError(
        f"{redact_secrets(text)!r} is not the address of a remote. Write SCHEME://HOST[:PORT], such as "
        f"https://s3.example.org or ssh://example.org; s3://BUCKET for a bucket at Amazon."
    )


def load_user_logins(addresses: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return, for each address that this user named, his own DVC settings of a remote there, without its URL.

    Raises:
        ConfigError: a text is no address, or his settings are broken.
    """
    logins: dict[str, Mapping[str, Any]] = {parse_remote_address(text): {} for text in addresses}
    if logins:
        for options in load_settings(Path(), USER).get("remote", {}).values():
            address = get_login_address(options)
            if address in logins:
                logins[address] = {name: value for name, value in options.items() if name != "url"}
    return logins


def open_file_system(fs_class: Any, options: Mapping[str, Any], url: str, *, public: bool) -> Any:
    """Return one of DVC's file systems, not connected yet.

    Args:
        fs_class: its class.
        options: what DVC makes it with.
        url: the remote's.
        public: use no login beyond what the options hold; the scheme of its URL is one of ``PUBLIC``.
    """
    options = dict(options)
    if fs_class.protocol == "ssh":
        options["agent_forwarding"] = False  # DVC lets the server use the keys of this user
    if public and fs_class.protocol in ("s3", "gs"):
        options["allow_anonymous_login"] = not (
            options.get("access_key_id") and options.get("secret_access_key")
        )
    fs = fs_class(**options)
    if fs_class.protocol in ("http", "https"):
        origin = urlsplit(url)._replace(path="/", query="", fragment="").geturl()
        fs.fs_args["client_kwargs"]["base_url"] = origin  # else a password goes along to where it redirects
    if not public:
        return fs
    if fs_class.protocol in ("http", "https"):
        fs.fs_args["client_kwargs"].update(_disable_netrc(url))
    elif fs_class.protocol == "gs":
        fs.fs_args["session_kwargs"] = _disable_netrc(url)
    elif fs_class.protocol in ("webdav", "webdavs"):
        fs.fs_args.update(_disable_netrc(url.replace("webdav", "http", 1)))
    return fs


def _disable_netrc(url: str) -> dict[str, Any]:
    """Return the settings of an HTTP client that does not read ``~/.netrc``, with the proxy that it would find itself."""
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    return {"trust_env": False} | ({"proxy": proxy} if proxy else {})

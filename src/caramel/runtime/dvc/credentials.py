"""Decide which login is used for a remote that somebody else configured: the one in its settings, or none.

The libraries that open remotes look for a login in many places of this machine: environment variables,
``~/.aws``, the metadata service of a cloud machine, ``~/.netrc``, SSH keys and the SSH agent. Whoever writes
the settings of a remote chooses the server that receives the login. So a remote configured by others is
opened with the login in its settings. A login of this user is used only if the user has named the remote's
address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from caramel.errors import ConfigError, redact_secrets
from caramel.runtime.dvc.settings import USER, load_settings

# Settings by others that are used: the location of a remote, and a login that was published with it. Their
# other settings name files of this machine, choose a login of its user, run a command
# (``bearer_token_command``) or disable encryption.
_USED = {
    "url", "endpointurl", "oss_endpoint", "region", "account_name", "projectname", "port", "verify",
    "allow_anonymous_login", "auth", "user", "password", "access_key_id", "secret_access_key", "session_token", "sas_token",
    "version_aware", "worktree",
}  # fmt: skip
_PORTS = {"http": 80, "https": 443, "ssh": 22, "webdav": 80, "webdavs": 443}
# Schemes of remotes that can be opened without their library looking for a login; a folder has none. SSH
# offers all keys of the user, Azure and OSS always take logins from the environment, and Google Drive and
# HDFS do not work without one.
PUBLIC = ("", "file", "s3", "gs", "http", "https", "webdav", "webdavs")


def select_allowed_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings by others that are used for a remote."""
    return {name: value for name, value in options.items() if name in _USED}


def get_login_address(options: Mapping[str, Any]) -> str | None:
    """Return the address that receives a remote's login.

    It is ``SCHEME://HOST[:PORT]``, or ``s3://BUCKET`` if no endpoint is set.

    Args:
        options: settings of the remote, with ``remote://`` resolved.

    Returns:
        The address; None for a folder of this machine.

    Raises:
        ConfigError: its address is invalid.
    """
    if account := options.get("account_name"):
        return parse_remote_address(f"https://{account}.blob.core.windows.net")  # as adlfs forms it
    url = str(options.get("endpointurl") or options.get("oss_endpoint") or options["url"])
    return parse_remote_address(url, options.get("port")) if "://" in url and urlsplit(url).netloc else None


def parse_remote_address(text: str, port: int | None = None) -> str:
    """Return the address in a URL, in the form of ``get_login_address``.

    Raises:
        ConfigError: the URL names no host.
    """
    try:
        parts = urlsplit(text)
        port = port or parts.port
        if parts.scheme and parts.hostname:
            usual = port is None or port == _PORTS.get(parts.scheme)
            return f"{parts.scheme}://{parts.hostname}" + ("" if usual else f":{port}")
    except ValueError:  # invalid port or bracket
        pass
    raise ConfigError(
        f"{redact_secrets(text)!r} is not the address of a remote. Write SCHEME://HOST[:PORT], such as "
        f"https://s3.example.org or ssh://example.org; s3://BUCKET for a bucket at Amazon."
    )


def load_user_logins(addresses: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return this user's DVC settings, without URL, for each address that the user named.

    Raises:
        ConfigError: a text is not an address, or the user's settings are broken.
    """
    logins: dict[str, Mapping[str, Any]] = {parse_remote_address(text): {} for text in addresses}
    if logins:
        for options in load_settings(Path(), USER).get("remote", {}).values():
            address = get_login_address(options)
            if address in logins:
                logins[address] = {name: value for name, value in options.items() if name != "url"}
    return logins


def open_file_system(fs_class: Any, options: Mapping[str, Any], url: str, *, public: bool) -> Any:
    """Return one of DVC's file systems, not yet connected.

    Args:
        fs_class: its class.
        options: DVC's arguments for it.
        url: URL of the remote.
        public: use no login except the one in the options; the URL's scheme must be in ``PUBLIC``.
    """
    options = dict(options)
    if fs_class.protocol == "ssh":
        options["agent_forwarding"] = False  # otherwise DVC lets the server use this user's keys
    if public and fs_class.protocol in ("s3", "gs"):
        options["allow_anonymous_login"] = not (
            options.get("access_key_id") and options.get("secret_access_key")
        )
    fs = fs_class(**options)
    if fs_class.protocol in ("http", "https"):
        origin = urlsplit(url)._replace(path="/", query="", fragment="").geturl()
        fs.fs_args["client_kwargs"]["base_url"] = origin  # otherwise a redirect would receive the password
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
    """Return the settings of an HTTP client that ignores ``~/.netrc`` but keeps its usual proxy."""
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    return {"trust_env": False} | ({"proxy": proxy} if proxy else {})

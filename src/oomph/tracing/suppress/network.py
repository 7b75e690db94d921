"""Nothing is sent: uploads to the Hugging Face hub do not happen, and other requests that change something are answered
with an empty success, so that a notification at the end of an epoch does not end the trace."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.suppress.inert import Inert, words

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Methods of huggingface_hub's HfApi that change something; module functions of the same names are theirs.
_HUB = words(
    "create_repo upload_file upload_folder upload_large_folder create_commit create_commits_on_pr create_branch "
    "create_tag delete_repo delete_file delete_files delete_folder delete_branch delete_tag move_repo "
    "update_repo_settings update_repo_visibility create_discussion create_pull_request comment_discussion "
    "add_space_secret add_space_variable super_squash_history run_as_future preupload_lfs_files"
)
_CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
#: Questions that huggingface_hub asks with POST.
_QUESTIONS = ("/paths-info/", "/tree/", "/api/validate-yaml", "/info/lfs/objects/batch")
_EMPTY = b"{}"


class RepoUrl(str):
    """As huggingface_hub's: text with parts."""

    __slots__ = ()
    endpoint = "https://huggingface.co"
    repo_type = "model"

    @property
    def repo_id(self) -> str:
        return self.rpartition("huggingface.co/")[2]

    @property
    def url(self) -> str:
        return str(self)

    @property
    def repo_name(self) -> str:
        return self.repo_id.rpartition("/")[2]


def install(recorder: Recorder) -> None:
    """Replaces uploads, and requests that change something, in the usual HTTP libraries."""
    patches = recorder.patches
    patches.when_imported("huggingface_hub.hf_api", lambda module: _hub(recorder, module))
    patches.when_imported("huggingface_hub", lambda module: _functions(recorder, module))
    patches.when_imported("requests.sessions", lambda module: _requests(recorder, module))
    patches.when_imported("httpx", lambda module: _httpx(recorder, module))
    patches.when_imported("urllib.request", lambda module: _urllib(recorder, module))


def _answer(recorder: Recorder, name: str) -> Callable[..., Any]:
    def answer(_: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        texts = [each for each in args if isinstance(each, str)]
        repo = str(kwargs.get("repo_id") or next(iter(texts), "") or "")
        recorder.suppress(f"{name.replace('_', ' ')} on the Hugging Face hub{f': {repo}' if repo else ''}")
        return RepoUrl(f"https://huggingface.co/{repo}") if name == "create_repo" else Inert()

    return answer


def _hub(recorder: Recorder, module: ModuleType) -> None:
    for name in _HUB:
        if hasattr(module.HfApi, name):
            recorder.patches.wrap(module.HfApi, name, _answer(recorder, name))
        if hasattr(module, name):
            recorder.patches.wrap(module, name, _answer(recorder, name))


def _functions(recorder: Recorder, module: ModuleType) -> None:
    """The package gives names on first use; what is there already holds the methods from before."""
    for name in _HUB:
        if name in vars(module):
            recorder.patches.wrap(module, name, _answer(recorder, name))


def _refuses(recorder: Recorder, method: Any, url: Any) -> bool:
    """Whether a request is not to be sent; then it is listed."""
    word, place = str(method or "GET").upper(), str(url).partition("?")[0]
    if word not in _CHANGES or any(part in place for part in _QUESTIONS):
        return False
    recorder.suppress(f"send {word} {place}")
    return True


def _requests(recorder: Recorder, module: ModuleType) -> None:
    def send(original: Callable[..., Any], session: Any, request: Any, **kwargs: Any) -> Any:
        if not _refuses(recorder, request.method, request.url):
            return original(session, request, **kwargs)
        import requests

        response = requests.Response()
        response.status_code, response.reason = 200, "OK"
        response.url, response.request = request.url, request
        response.raw = io.BytesIO(_EMPTY)
        return response

    recorder.patches.wrap(module.Session, "send", send)


def _httpx(recorder: Recorder, module: ModuleType) -> None:
    def send(original: Callable[..., Any], client: Any, request: Any, **kwargs: Any) -> Any:
        if not _refuses(recorder, request.method, request.url):
            return original(client, request, **kwargs)
        return module.Response(200, content=_EMPTY, request=request)

    recorder.patches.wrap(module.Client, "send", send)


def _urllib(recorder: Recorder, module: ModuleType) -> None:
    def open_url(
        original: Callable[..., Any], opener: Any, request: Any, data: Any = None, *args: Any
    ) -> Any:
        url = request if isinstance(request, str) else request.full_url
        method = "POST" if data is not None else "GET" if isinstance(request, str) else request.get_method()
        if not _refuses(recorder, method, url):
            return original(opener, request, data, *args)
        from email.message import Message
        from urllib.response import addinfourl

        return addinfourl(io.BytesIO(_EMPTY), Message(), url, 200)

    recorder.patches.wrap(module.OpenerDirector, "open", open_url)

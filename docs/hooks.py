"""Hooks of MkDocs (`make docs`): pages from other folders, links, diagrams, the Python API and the OpenAPI page.

Pages are written for GitHub: links are relative to the file, also to files outside docs/. Here these links lead to the
page that the site has of the file, otherwise to the repository.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import tomllib
from importlib.resources import files as resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastapi_offline
import mermaidx
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.superfences import SuperFencesException

from assay.service.http.app import create_app

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "clients/README.md": "client.md",
    "deploy/README.md": "deploy.md",
    "environments/README.md": "environments.md",
    "environments/assay_inspect/README.md": "inspect.md",
    "environments/assay_lm_eval/README.md": "lm-eval.md",
    "environments/assay_nemo_gym/README.md": "nemo-gym.md",
    "environments/assay_openenv/README.md": "openenv.md",
    "environments/assay_openreward/README.md": "openreward.md",
    "environments/assay_tinker/README.md": "tinker.md",
    "environments/assay_verifiers/README.md": "verifiers.md",
    "examples/grpo_tiny/README.md": "grpo-tiny.md",
    "examples/grpo_tiny/rewards.png": "rewards.png",
    "examples/trainers/README.md": "trainer-examples.md",
}
"""Files of the repository that are pages or pictures of the site, and their names there."""

FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s#:]+)(#[^()\s]*)?\)")
MODULES = TemporaryDirectory()
"""What mkdocstrings reads: the package `assay`, whose folder may have another name, without tests and environments."""

SWAGGER = """\
window.addEventListener("load", () =>
  SwaggerUIBundle({dom_id: "#swagger-ui", spec: %s, supportedSubmitMethods: [], defaultModelsExpandDepth: 0}))
"""


@event_priority(100)  # before mkdocstrings creates its handlers
def on_config(config: MkDocsConfig) -> None:
    """Tell Markdown to draw diagrams, and mkdocstrings where the modules are."""
    fence = {"name": "mermaid", "class": "diagram", "format": diagram}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    package = Path(MODULES.name, "assay")
    if not package.exists():
        package.mkdir()
        for name in ("__init__.py", "research", "service"):
            (package / name).symlink_to(ROOT / name)
    python = config.plugins["mkdocstrings"].config.handlers["python"]
    python["paths"] = [MODULES.name, str(ROOT / "clients")]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the files outside docs/, and those that Swagger UI needs."""
    for source, name in OUTSIDE.items():
        if (ROOT / source).is_file():
            files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    document = json.dumps(create_app().openapi())
    files.append(File.generated(config, "openapi.json", content=document))
    files.append(File.generated(config, "openapi.js", content=SWAGGER % document))
    for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
        content = (resources(fastapi_offline) / "static" / name).read_bytes()
        files.append(File.generated(config, name, content=content))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links to files outside docs/ and from pages outside docs/; rank decisions lower in the search."""
    if page.file.src_uri.startswith("decisions/"):
        page.meta["search"] = {"boost": 0.1}
    homes = {name: source for source, name in OUTSIDE.items()}
    folder = posixpath.dirname(homes.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def rewritten(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        name = page_of(path)
        if name is not None:
            return f"[{text}]({posixpath.relpath(name, posixpath.dirname(page.file.src_uri) or '.')}{anchor})"
        if not (ROOT / path).exists():
            return found[0]  # MkDocs reports it
        address = repository()
        return f"[{text}]({address}/blob/main/{path}{anchor})" if address else text

    return "".join(part if part.startswith("```") else LINK.sub(rewritten, part) for part in FENCE.split(markdown))


def page_of(path: str) -> str | None:
    """Return the name on the site of a file or folder of the repository, if it has one."""
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    if path == "README.md":
        return "index.md"
    return OUTSIDE.get(path) or OUTSIDE.get(f"{path}/README.md")


def repository() -> str | None:
    """Return the address of the repository that pyproject.toml names, if any."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    address: str | None = urls.get("Repository") or urls.get("Source")
    return address and address.rstrip("/")


def diagram(source: str, *_arguments: Any, **_options: Any) -> str:
    """Draw a Mermaid diagram as SVG, so that pages need no script for it; text of the diagram stays text."""
    try:
        drawn = mermaidx.render(source, theme="neutral").svg()
    except Exception as error:
        raise SuperFencesException(f"a diagram cannot be drawn: {error}") from error
    name = f"diagram-{hashlib.sha256(source.encode()).hexdigest()[:8]}"
    return f'<div class="diagram">{drawn.replace("my-svg", name)}</div>'

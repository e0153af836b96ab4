"""Which folders of node_modules are served, and under which prefix."""

from __future__ import annotations

from pathlib import Path

# Prefix below /static/ -> folder below node_modules/.
VENDOR_FOLDERS = {
    "vendor/tabler/css": "@tabler/core/dist/css",
    "vendor/tabler/js": "@tabler/core/dist/js",
    "vendor/tabler-icons": "@tabler/icons-webfont/dist",
    "vendor/cytoscape": "cytoscape/dist",
    "vendor/cytoscape-dagre": "cytoscape-dagre/dist",
    "vendor/cytoscape-fcose": "cytoscape-fcose",
    "vendor/cose-base": "cose-base",  # fcose's own two dependencies ship as separate browser files
    "vendor/layout-base": "layout-base",
    "vendor/uplot": "uplot/dist",
    "vendor/diff2html": "diff2html/bundles",
    "vendor/highlight": "@highlightjs/cdn-assets",
    "vendor/htmx": "htmx.org/dist",
    "vendor/ace": "ace-builds/src-min-noconflict",
}

# The files pages load; each must exist for the dashboard to work.
VENDOR_FILES = [
    "vendor/tabler/css/tabler.min.css",
    "vendor/tabler/js/tabler.min.js",
    "vendor/tabler-icons/tabler-icons.min.css",
    "vendor/cytoscape/cytoscape.min.js",
    "vendor/cytoscape-dagre/cytoscape-dagre.min.js",
    "vendor/cytoscape-fcose/cytoscape-fcose.js",
    "vendor/cose-base/cose-base.js",
    "vendor/layout-base/layout-base.js",
    "vendor/uplot/uPlot.iife.min.js",
    "vendor/uplot/uPlot.min.css",
    "vendor/diff2html/js/diff2html-ui-slim.min.js",
    "vendor/diff2html/css/diff2html.min.css",
    "vendor/highlight/highlight.min.js",
    "vendor/htmx/htmx.min.js",
    "vendor/ace/ace.js",
]


def vendor_dirs(node_modules: Path) -> list[tuple[str, Path]]:
    """Prefixed entries for ``STATICFILES_DIRS``."""
    return [(prefix, node_modules / folder) for prefix, folder in VENDOR_FOLDERS.items()]


def missing_vendor_files(node_modules: Path) -> list[str]:
    """The files of `VENDOR_FILES` that npm has not put there."""
    return [name for name in VENDOR_FILES if not _path_of(name, node_modules).is_file()]


def _path_of(name: str, node_modules: Path) -> Path:
    for prefix, folder in VENDOR_FOLDERS.items():
        if name.startswith(prefix + "/"):
            return node_modules / folder / name[len(prefix) + 1 :]
    raise ValueError(f"{name} lies under no vendor prefix")

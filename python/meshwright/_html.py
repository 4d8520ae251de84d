# SPDX-License-Identifier: Apache-2.0
"""Reports in a notebook."""
from __future__ import annotations

import html


def framed(page: str, answer: str) -> str:
    """The page in a frame of its own, which reaches nothing of the notebook; before it the answer, for viewers without frames."""
    return (
        f"<p>{html.escape(answer)}</p>"
        f'<iframe sandbox="allow-scripts" style="width:100%;height:720px;border:0" srcdoc="{html.escape(page)}"></iframe>'
    )

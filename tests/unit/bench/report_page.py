# SPDX-License-Identifier: BSD-2-Clause
"""What tests ask of a page."""

import html.parser


class Page(html.parser.HTMLParser):
    """Collects what a browser would fetch or run."""

    def __init__(self, text):
        super().__init__()
        self.links, self.tags, self.handlers, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "action", "srcset"):
                self.links.append(value)
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_data(self, data):
        self.text += data

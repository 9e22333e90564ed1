"""Follow the links of a web site, eight pages at a time.

    python examples/crawler.py [URL [PAGES]]

Without a URL it crawls a small site that it serves itself. The pages are fetched by urllib, as in any program: `roamlet.patch`
makes its sockets block the calling tasklet alone.
"""

import http.server
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from html.parser import HTMLParser

import roamlet
from roamlet import patch, sync

AT_ONCE = 8
SECONDS = 10  # for one page


class Links(HTMLParser):
    """Collects what the links of a page point to."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def fetch(url):
    """The status of a page, and the pages of the same site that it links to."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            status, base, html = answer.status, answer.url, "html" in answer.headers.get_content_type()
            text = answer.read(1_000_000).decode("utf-8", "replace") if html else ""
    except urllib.error.HTTPError as error:
        error.close()
        return str(error.code), []
    except OSError as error:  # no such host, refused, too slow
        return str(getattr(error, "reason", error)), []
    links = Links()
    links.feed(text)
    absolute = [urllib.parse.urldefrag(urllib.parse.urljoin(base, link)).url for link in links.found]
    site = urllib.parse.urlsplit(base).netloc
    return str(status), [link for link in absolute if urllib.parse.urlsplit(link).netloc == site]


def crawl(start, most):
    """Fetch at most so many pages, print each, and return how many there were of each status."""
    pages, seen, statuses = sync.Queue(), {start}, Counter()
    pages.put(start)

    def work():
        while True:
            url = pages.get()
            status, links = fetch(url)
            statuses[status] += 1
            print(f"{status:>5}  {url}", flush=True)
            for link in links:
                if link not in seen and len(seen) < most:
                    seen.add(link)
                    pages.put(link)
            pages.task_done()

    with roamlet.scope() as workers:
        for _ in range(AT_ONCE):
            workers.service(work)  # ended with the scope, when no page is left
        pages.join()
    return statuses


class Site(http.server.BaseHTTPRequestHandler):
    """Page n links to 2n and 2n + 1; there are 20, and those after them are missing."""

    def do_GET(self):
        number = int(self.path.strip("/") or 1)
        body = "".join(f'<a href="/{child}">{child}</a> ' for child in (2 * number, 2 * number + 1)).encode()
        if number > 20:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: the crawler prints the pages."""


def main():
    patch.install()
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with http.server.HTTPServer(("127.0.0.1", 0), Site) as server, roamlet.scope() as s:
        if len(sys.argv) > 1:
            start = sys.argv[1]
        else:
            s.service(server.serve_forever)
            start = f"http://127.0.0.1:{server.server_port}/"
        statuses = crawl(start, most)
    print(", ".join(f"{count} x {status}" for status, count in sorted(statuses.items())))


if __name__ == "__main__":
    main()

"""Makes `kopf.crt` and `kopf.key`: the self-signed certificate of kopf's webhook server.

    python3 -m venv venv && venv/bin/pip install kopf==1.44.6 certbuilder==0.14.2 oscrypto==1.3.0
    venv/bin/python make.py

Everything in the certificate is what kopf decides, except for the end of its validity: kopf's certificates end after a year,
this one ends where its form of time does, in 2049.
"""

import datetime
import pathlib
import re

# oscrypto 1.3.0 does not understand versions of OpenSSL with two digits in a part, such as 3.0.19.
search = re.search


def lenient_search(pattern, text, *flags):
    if isinstance(pattern, str):
        pattern = pattern.replace(r"\d\.\d\.\d[a-z]*", r"\d+\.\d+\.\d+[a-z]*")
    return search(pattern, text, *flags)


re.search = lenient_search

import certbuilder
from kopf import WebhookServer

re.search = search


class LongLived(certbuilder.CertificateBuilder):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.begin_date = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
        self.end_date = datetime.datetime(2049, 12, 31, tzinfo=datetime.timezone.utc)


certbuilder.CertificateBuilder = LongLived
certificate, key = WebhookServer.build_certificate(["localhost", "127.0.0.1", "host.docker.internal"])
here = pathlib.Path(__file__).parent
(here / "kopf.crt").write_bytes(certificate)
(here / "kopf.key").write_bytes(key)

import dataclasses
import datetime

import kopf
from notes import THINGS, tell


@kopf.on.login()
async def refused(logger, **kwargs):
    tell(logger, 'refused')
    return dataclasses.replace(kopf.login_with_kubeconfig(**kwargs), token='refused', priority=10)


@kopf.on.login()
async def expired(logger, **kwargs):
    tell(logger, 'expired')
    expiration = datetime.datetime(2020, 1, 1)
    return dataclasses.replace(kopf.login_with_kubeconfig(**kwargs), token='expired', priority=20, expiration=expiration)


@kopf.on.login()
async def accepted(logger, retry, **kwargs):
    tell(logger, 'accepted', retry=retry)
    if retry == 0:
        raise kopf.TemporaryError('not yet', delay=0.3)
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.login(errors=kopf.ErrorsMode.IGNORED)
async def ignored(logger, **_):
    tell(logger, 'ignored')
    raise Exception('boom')


@kopf.on.create(*THINGS, labels={'case': 'served'})
async def on_create(**_):
    return 'served'

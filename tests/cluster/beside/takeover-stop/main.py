import asyncio

import kopf
from notes import THINGS, await_finalizer, count, reasons, tell


@kopf.daemon(*THINGS, labels={'case': 'running'})
async def running(retry, stopped, logger, **_):
    tell(logger, 'begin', retry=retry)
    await stopped.wait()
    tell(logger, 'end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'deleted'})
async def deleted(stopped, logger, **_):
    tell(logger, 'begin')
    await stopped.wait()


@kopf.daemon(*THINGS, labels={'case': 'returned'})
async def returned(meta, stopped, status, **_):
    await await_finalizer(meta, stopped)
    return {'runs': status.get('returned', {}).get('runs', 0) + 1}


@kopf.daemon(*THINGS, labels={'case': 'retried'})
async def retried(meta, retry, stopped, patch, logger, **_):
    await await_finalizer(meta, stopped)
    if retry < 2:
        tell(logger, 'begin', retry=retry)
        patch.status['retry'] = retry
        raise kopf.TemporaryError('again', delay=0.3)
    await stopped.wait()


@kopf.timer(*THINGS, labels={'case': 'timer'}, interval=0.5)
async def timer(meta, stopped, memo, status, **_):
    await await_finalizer(meta, stopped)
    if count(memo) <= 2:
        return {'calls': status.get('timer', {}).get('calls', 0) + 1}


@kopf.daemon(*THINGS, labels={'case': 'creation'})
async def beside_creation(stopped, logger, **_):
    tell(logger, 'begin')
    await stopped.wait()


@kopf.on.create(*THINGS, labels={'case': 'creation'})
async def on_create(retry, logger, **_):
    tell(logger, 'create', retry=retry)
    if retry == 0:
        raise kopf.TemporaryError('not yet', delay=4)
    return {'retry': retry}


@kopf.daemon(*THINGS, labels={'case': 'foreign'})
async def foreign(stopped, logger, **_):
    tell(logger, 'begin')
    await stopped.wait()


@kopf.daemon(*THINGS, labels={'case': 'stopping'}, cancellation_backoff=60)
async def stopping(stopped, logger, **_):
    tell(logger, 'begin')
    await stopped.wait()
    tell(logger, 'stopping')
    await asyncio.sleep(60)


@kopf.index(*THINGS, labels={'case': 'indexed'})
async def names(name, **_):
    return {'names': name}


@kopf.daemon(*THINGS, labels={'case': 'indexed', 'reads': 'yes'})
async def reading(names, stopped, logger, **_):
    tell(logger, 'read', names=sorted(names['names']))
    await stopped.wait()

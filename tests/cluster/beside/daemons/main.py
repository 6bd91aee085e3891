import asyncio

import kopf
from notes import THINGS, await_finalizer, count, reasons, tell


@kopf.daemon(*THINGS, labels={'case': 'deletion'})
async def deletion(stopped, retry, logger, **_):
    tell(logger, 'begin', retry=retry, reasons=reasons(stopped))
    await stopped.wait()
    tell(logger, 'end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'waiting'})
async def waiting(stopped, logger, **_):
    for n in range(3):
        waited = await stopped.wait(0.3)
        tell(logger, 'wait', n=n, stopped=bool(waited), is_set=stopped.is_set())
    waited = await stopped.wait(30)
    tell(logger, 'wait', n=3, stopped=bool(waited), is_set=stopped.is_set())


@kopf.daemon(*THINGS, labels={'case': 'backoff'}, cancellation_backoff=1.5)
async def backoff(stopped, logger, **_):
    await stopped.wait()
    await asyncio.sleep(0.5)
    tell(logger, 'end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'polling'}, cancellation_polling=1)
async def polling(stopped, logger, **_):
    await stopped.wait()
    await asyncio.sleep(0.5)
    tell(logger, 'end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'cancelled'}, cancellation_backoff=0.5, cancellation_timeout=5)
async def cancelled(logger, **_):
    tell(logger, 'begin')
    await asyncio.sleep(60)
    tell(logger, 'end')


@kopf.daemon(*THINGS, labels={'case': 'returns'})
async def returns(meta, stopped, logger, **_):
    await await_finalizer(meta, stopped)
    tell(logger, 'begin')
    return {'done': True}


@kopf.daemon(*THINGS, labels={'case': 'temporary'})
async def temporary(meta, retry, patch, stopped, logger, **_):
    await await_finalizer(meta, stopped)
    tell(logger, 'begin', retry=retry)
    if retry < 2:
        patch.status[f'attempt-{retry}'] = True
        raise kopf.TemporaryError('again', delay=0.4)
    await stopped.wait()
    tell(logger, 'end', retry=retry)


@kopf.daemon(*THINGS, labels={'case': 'at-once'})
async def at_once(retry, patch, stopped, logger, **_):
    tell(logger, 'begin', retry=retry)
    if retry < 3:
        raise kopf.TemporaryError('again', delay=0)
    await stopped.wait()


@kopf.daemon(*THINGS, labels={'case': 'permanent'})
async def permanent(retry, logger, **_):
    tell(logger, 'begin', retry=retry)
    raise kopf.PermanentError('never')


@kopf.daemon(*THINGS, labels={'case': 'arbitrary'}, backoff=0.3, retries=3)
async def arbitrary(retry, logger, **_):
    tell(logger, 'begin', retry=retry)
    raise Exception('boom')


@kopf.daemon(*THINGS, labels={'case': 'ignored'}, errors=kopf.ErrorsMode.IGNORED)
async def ignored(retry, logger, **_):
    tell(logger, 'begin', retry=retry)
    raise Exception('boom')


@kopf.daemon(*THINGS, labels={'case': 'timeout'}, backoff=1, timeout=1.5)
async def timeout(retry, logger, **_):
    tell(logger, 'begin', retry=retry)
    raise Exception('boom')


@kopf.daemon(*THINGS, labels={'case': 'matching', 'active': 'yes'})
async def matching(spec, retry, stopped, logger, **_):
    tell(logger, 'begin', phase=spec['phase'], retry=retry)
    await stopped.wait()
    tell(logger, 'end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'exit'})
async def exit(stopped, logger, **_):
    tell(logger, 'begin')
    await stopped.wait()
    tell(logger, 'end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'exit-backoff'}, cancellation_backoff=3)
async def exit_backoff(stopped, logger, **_):
    tell(logger, 'begin')
    await stopped.wait()
    await asyncio.sleep(0.5)
    tell(logger, 'end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'live'})
async def live(spec, stopped, logger, **_):
    tell(logger, 'begin', size=spec['size'])
    while spec['size'] == 1 and not await stopped.wait(0.1):
        pass
    tell(logger, 'seen', size=spec['size'])
    await stopped.wait()


@kopf.daemon(*THINGS, labels={'case': 'initial-delay'}, initial_delay=1)
async def initial_delay(spec, stopped, logger, **_):
    tell(logger, 'begin', size=spec['size'])
    await stopped.wait()


@kopf.daemon(*THINGS, labels={'case': 'early-deletion'}, initial_delay=60)
async def early_deletion(logger, **_):
    tell(logger, 'begin')


@kopf.daemon(*THINGS, labels={'case': 'delete-handler'}, cancellation_polling=1)
async def with_delete_handler(stopped, logger, **_):
    await stopped.wait()
    tell(logger, 'stopped', reasons=reasons(stopped))


@kopf.on.delete(*THINGS, labels={'case': 'delete-handler'})
async def on_delete(logger, **_):
    tell(logger, 'delete')


@kopf.daemon(*THINGS, labels={'case': 'two'})
async def first(stopped, logger, **_):
    tell(logger, 'first')
    await stopped.wait()
    tell(logger, 'first-end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'two', 'second': 'yes'})
async def second(stopped, logger, **_):
    tell(logger, 'second')
    await stopped.wait()
    tell(logger, 'second-end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'memo'})
async def with_memo(memo, stopped, logger, **_):
    count(memo, 'daemon')
    while memo.get('created') is None and not await stopped.wait(0.1):
        pass
    tell(logger, 'daemon', created=memo.get('created'))
    await stopped.wait()


@kopf.on.create(*THINGS, labels={'case': 'memo'})
async def on_create(memo, logger, **_):
    tell(logger, 'create', daemons=memo.get('daemon'))
    memo['created'] = 'by a handler'


def mark(body):
    body['spec']['marked'] = True


@kopf.daemon(*THINGS, labels={'case': 'transformation'})
async def transformation(meta, patch, stopped, retry, **_):
    await await_finalizer(meta, stopped)
    if retry == 0:
        patch.fns.append(mark)
        patch.status['marked'] = True
        raise kopf.TemporaryError('sent', delay=0)
    await stopped.wait()


@kopf.daemon(*THINGS, labels={'case': 'conditional'}, when=lambda spec, **_: spec.get('size', 0) > 1)
async def conditional(name, stopped, logger, **_):
    tell(logger, 'begin', name=name)
    await stopped.wait()
    tell(logger, 'end', name=name, reasons=reasons(stopped))

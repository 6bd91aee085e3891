import asyncio

import kopf
from notes import THINGS, await_finalizer, count, tell

# Calls beyond this number do nothing, so that both operators do the same, however long they run.
LIMIT = 4


@kopf.timer(*THINGS, labels={'case': 'interval'}, interval=1)
async def interval(memo, logger, **_):
    if (n := count(memo)) <= LIMIT:
        tell(logger, 'tick', n=n)
        await asyncio.sleep(0.8 if n < LIMIT else 0)


@kopf.timer(*THINGS, labels={'case': 'sharp'}, interval=1, sharp=True)
async def sharp(memo, logger, **_):
    if (n := count(memo)) <= LIMIT:
        tell(logger, 'tick', n=n)
        await asyncio.sleep(0.8 if n < LIMIT else 0)


@kopf.timer(*THINGS, labels={'case': 'sharp-late'}, interval=0.5, sharp=True)
async def sharp_late(memo, logger, **_):
    if (n := count(memo)) <= LIMIT:
        tell(logger, 'tick', n=n)
        await asyncio.sleep(0.7 if n < LIMIT else 0)


@kopf.timer(*THINGS, labels={'case': 'initial-delay'}, interval=0.5, initial_delay=1.2)
async def initial_delay(memo, logger, **_):
    if (n := count(memo)) <= 2:
        tell(logger, 'tick', n=n)


@kopf.timer(*THINGS, labels={'case': 'computed-delay'}, interval=0.5, initial_delay=lambda spec, **_: spec['delay'])
async def computed_delay(memo, logger, **_):
    if (n := count(memo)) <= 2:
        tell(logger, 'tick', n=n)


# A kind whose changes are handled stores what was handled last, and its timers are idle as long as that does not change.
@kopf.on.create(*THINGS, labels={'changes': 'handled'})
@kopf.on.update(*THINGS, labels={'changes': 'handled'})
async def handle(**_):
    pass


@kopf.timer(*THINGS, labels={'case': 'idle'}, interval=0.4, idle=1)
async def idle(spec, memo, logger, **_):
    if (n := count(memo, f'size-{spec["size"]}')) <= 2:
        tell(logger, f'tick-{spec["size"]}', n=n)


@kopf.timer(*THINGS, labels={'case': 'idle-only'}, idle=0.8)
async def idle_only(spec, logger, **_):
    tell(logger, 'tick', size=spec['size'])


@kopf.timer(*THINGS, labels={'case': 'idle-delay'}, interval=60, idle=0.5, initial_delay=1.5)
async def delayed(logger, **_):
    tell(logger, 'delayed')


@kopf.timer(*THINGS, labels={'case': 'idle-delay'}, interval=60, idle=1.5, initial_delay=0.5)
async def idling(logger, **_):
    tell(logger, 'idling')


@kopf.timer(*THINGS, labels={'case': 'temporary'}, interval=0.8)
async def temporary(retry, memo, logger, **_):
    if count(memo) > 6:
        return
    tell(logger, 'tick', retry=retry)
    if retry < 2:
        raise kopf.TemporaryError('not yet', delay=0.3)


@kopf.timer(*THINGS, labels={'case': 'at-once'}, interval=60)
async def at_once(retry, logger, **_):
    tell(logger, 'tick', retry=retry)
    if retry < 3:
        raise kopf.TemporaryError('again', delay=None)


@kopf.timer(*THINGS, labels={'case': 'permanent'}, interval=0.5)
async def permanent(retry, memo, logger, **_):
    if count(memo) <= 3:
        tell(logger, 'tick', retry=retry)
        raise kopf.PermanentError('never')


@kopf.timer(*THINGS, labels={'case': 'arbitrary'}, interval=0.6, backoff=0.3, retries=3)
async def arbitrary(retry, memo, logger, **_):
    if count(memo) <= 6:
        tell(logger, 'tick', retry=retry)
        raise Exception('boom')


@kopf.timer(*THINGS, labels={'case': 'ignored'}, interval=0.5, errors=kopf.ErrorsMode.IGNORED)
async def ignored(retry, memo, logger, **_):
    if count(memo) <= 3:
        tell(logger, 'tick', retry=retry)
        raise Exception('boom')


@kopf.timer(*THINGS, labels={'case': 'strict'}, interval=0.5, errors=kopf.ErrorsMode.PERMANENT)
async def strict(retry, memo, logger, **_):
    if count(memo) <= 3:
        tell(logger, 'tick', retry=retry)
        raise Exception('boom')


@kopf.timer(*THINGS, labels={'case': 'timeout'}, interval=0.5, backoff=1, timeout=1.5)
async def timeout(retry, memo, logger, **_):
    if count(memo) <= 3:
        tell(logger, 'tick', retry=retry)
        raise Exception('boom')


@kopf.timer(*THINGS, labels={'case': 'result-map'}, interval=0.6)
async def result_map(meta, stopped, memo, **_):
    await await_finalizer(meta, stopped)
    n = count(memo)
    if n <= 3:
        return {'last': n, f'key-{n}': True}


@kopf.timer(*THINGS, labels={'case': 'result-text'}, interval=0.6)
async def result_text(meta, stopped, memo, **_):
    await await_finalizer(meta, stopped)
    n = count(memo)
    if n <= 3:
        return f'call {n}'


@kopf.timer(*THINGS, labels={'case': 'patch'}, interval=0.6)
async def patch(meta, stopped, memo, patch, **_):
    await await_finalizer(meta, stopped)
    if count(memo) <= 2:
        patch.status['state'] = f'seen {memo["calls"]} times'
        patch.metadata.labels['seen'] = str(memo['calls'])
        patch.metadata.annotations['beside/note'] = 'é "quoted"'
        patch.spec['size'] = memo['calls'] * 10
        patch.spec['legacy'] = None


def remember(body):
    names = body['spec'].setdefault('names', [])
    names.append(f'name-{len(names)}')


@kopf.timer(*THINGS, labels={'case': 'transformation'}, interval=1.5)
async def transformation(meta, stopped, memo, patch, **_):
    await await_finalizer(meta, stopped)
    if count(memo) <= 2:
        patch.fns.append(remember)


@kopf.timer(*THINGS, labels={'case': 'failing-patch'}, interval=60)
async def failing_patch(meta, stopped, retry, patch, **_):
    await await_finalizer(meta, stopped)
    patch.status[f'attempt-{retry}'] = True
    if retry == 0:
        raise kopf.TemporaryError('not yet', delay=0.3)
    if retry == 1:
        raise kopf.PermanentError('never')


@kopf.timer(*THINGS, labels={'case': 'matching', 'active': 'yes'}, interval=0.5, initial_delay=0.3)
async def matching(spec, retry, memo, logger, **_):
    if (n := count(memo, f'phase-{spec["phase"]}')) <= 2:
        tell(logger, f'tick-{spec["phase"]}', n=n, retry=retry)


@kopf.timer(*THINGS, labels={'case': 'deletion'}, interval=0.5)
async def deletion(memo, logger, **_):
    if (n := count(memo)) <= 2:
        tell(logger, 'tick', n=n)


@kopf.timer(*THINGS, labels={'case': 'long-call'}, interval=0.5)
async def long_call(meta, stopped, logger, **_):
    await await_finalizer(meta, stopped)
    tell(logger, 'begin')
    await asyncio.sleep(1.5)
    tell(logger, 'end')
    return {'ended': True}


@kopf.timer(*THINGS, labels={'case': 'one-shot'})
async def one_shot(logger, **_):
    tell(logger, 'tick')


@kopf.timer(*THINGS, annotations={'beside/case': 'annotated'}, interval=60)
async def annotated(name, logger, **_):
    tell(logger, 'tick', name=name)


@kopf.timer(*THINGS, labels={'case': 'conditional'}, when=lambda spec, **_: spec.get('size', 0) > 1, interval=60)
async def conditional(name, logger, **_):
    tell(logger, 'tick', name=name)


@kopf.timer(*THINGS, labels={'case': 'field'}, field='spec.size', value=5, interval=60)
async def field(meta, stopped, spec, **_):
    await await_finalizer(meta, stopped)
    return {'size': spec['size']}


@kopf.timer(*THINGS, labels={'case': 'two'}, interval=0.5)
async def slow(memo, logger, **_):
    if (n := count(memo, 'slow')) <= 2:
        tell(logger, 'slow', n=n)
        await asyncio.sleep(1 if n < 2 else 0)


@kopf.timer(*THINGS, labels={'case': 'two'}, interval=0.5)
async def quick(memo, logger, **_):
    if (n := count(memo, 'quick')) <= 3:
        tell(logger, 'quick', n=n)


@kopf.timer(*THINGS, labels={'case': 'live'}, interval=0.5)
async def live(spec, memo, logger, **_):
    before = spec['size']
    if count(memo) == 1:
        tell(logger, 'begin', size=before)
        await asyncio.sleep(1.5)
        tell(logger, 'end', size=spec['size'])

import kopf
from notes import THINGS, count, reasons, tell


@kopf.timer(*THINGS, labels={'case': 'timer'}, interval=0.5, initial_delay=0.5)
async def timer(memo, retry, logger, **_):
    if (n := count(memo)) <= 2:
        tell(logger, 'tick', n=n, retry=retry)


@kopf.daemon(*THINGS, labels={'case': 'daemon'})
async def daemon(stopped, logger, **_):
    tell(logger, 'begin')
    await stopped.wait()
    tell(logger, 'end', reasons=reasons(stopped))


@kopf.daemon(*THINGS, labels={'case': 'returned'})
async def returned(retry, logger, **_):
    tell(logger, 'begin', retry=retry)


@kopf.daemon(*THINGS, labels={'case': 'permanent'})
async def permanent(retry, logger, **_):
    tell(logger, 'begin', retry=retry)
    raise kopf.PermanentError('never')


@kopf.index(*THINGS, labels={'case': 'index'})
async def names(name, **_):
    return {name: name}


@kopf.on.event(*THINGS, labels={'case': 'index'})
async def on_event(names, type, logger, **_):
    tell(logger, 'event', type=type, names=sorted(names))

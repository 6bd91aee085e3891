import kopf
from notes import THINGS, count, tell


@kopf.on.probe()
async def first(memo, logger, **_):
    calls = count(memo)
    tell(logger, 'probe', calls=calls)
    if calls == 1:
        raise kopf.PermanentError('not today')
    return calls


@kopf.on.probe(id='second')
async def second_probe(memo, **_):
    return {'calls': memo['calls'], 'state': ['fine']}


@kopf.on.probe()
async def third(logger, **_):
    pass


@kopf.on.probe(errors=kopf.ErrorsMode.IGNORED)
async def fourth(**_):
    raise Exception('boom')

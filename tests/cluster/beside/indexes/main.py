import json

import kopf
from notes import OTHERS, THINGS, count, tell, warn


def compact(value):
    return json.dumps(value, separators=(',', ':'))


# The entries of an index as texts, independent of their order.
def entries(index):
    return sorted(compact([key, sorted(values)]) for key, values in index.items())


# A change of a reader tells the index that its label names.
@kopf.on.event(*THINGS, labels={'read': kopf.PRESENT})
async def read(labels, annotations, logger, **kwargs):
    tell(logger, 'read', step=annotations['step'], entries=entries(kwargs[labels['read']]))


@kopf.index(*THINGS, labels={'case': 'map'})
async def by_group(spec, name, logger, **_):
    warn(logger, 'index', name=name)
    return {spec['group']: name}


@kopf.index(*THINGS, labels={'case': 'flat'})
async def flat(spec, **_):
    return spec['size']


@kopf.index(*THINGS, labels={'case': 'keys'})
async def by_pair(spec, name, **_):
    return {(spec['host'], spec['port']): name, None: 'nothing', 7: 'seven', True: 'one'}


@kopf.index(*THINGS, labels={'case': 'spread'})
async def spread(spec, **_):
    return spec


@kopf.index(*THINGS, labels={'case': 'kept'})
async def kept(spec, logger, **_):
    warn(logger, 'index', size=spec['size'])
    if spec['size'] > 0:
        return {'size': spec['size']}


@kopf.index(*THINGS, labels={'case': 'emptied'})
async def emptied(spec, logger, **_):
    warn(logger, 'index', size=spec['size'])
    return {'size': spec['size']} if spec['size'] > 0 else {}


@kopf.index(*THINGS, labels={'case': 'updated'})
async def updated(spec, name, logger, **_):
    warn(logger, 'index', keys=spec['keys'])
    return {key: name for key in spec['keys']}


@kopf.index(*THINGS, labels={'case': 'deleted'})
async def deleted(name, **_):
    return {'name': name}


@kopf.index(*THINGS, labels={'case': 'unmatched'})
async def unmatched(name, **_):
    return {'name': name}


@kopf.index(*THINGS, id='kinds', labels={'case': 'kinds'})
async def things(name, **_):
    return {'name': name}


@kopf.index(*OTHERS, id='kinds', labels={'case': 'kinds'})
async def others(name, **_):
    return {'name': f'another {name}'}


@kopf.index(*THINGS, labels={'case': 'several'})
async def first(name, **_):
    return {'first': name}


@kopf.index(*THINGS, labels={'case': 'several'})
async def second(name, first, **_):
    return {'second': name, 'of the first': str(len(first))}


@kopf.index(*THINGS, labels={'case': 'ignored'})
async def ignored(spec, retry, logger, **_):
    warn(logger, 'index', phase=spec['phase'], retry=retry)
    if spec['phase'] == 2:
        raise Exception('boom')
    return {'phase': spec['phase']}


@kopf.index(*THINGS, labels={'case': 'temporary'})
async def temporary(spec, retry, logger, **_):
    warn(logger, 'index', phase=spec['phase'], retry=retry)
    if spec['phase'] == 2:
        raise kopf.TemporaryError('not yet', delay=1.5)
    return {'phase': spec['phase']}


@kopf.index(*THINGS, labels={'case': 'permanent'})
async def permanent(spec, logger, **_):
    warn(logger, 'index', phase=spec['phase'])
    if spec['phase'] == 2:
        raise kopf.PermanentError('never')
    return {'phase': spec['phase']}


@kopf.index(*THINGS, labels={'case': 'mode'}, errors=kopf.ErrorsMode.TEMPORARY, backoff=0.5, retries=2)
async def mode(spec, retry, logger, **_):
    warn(logger, 'index', phase=spec['phase'], retry=retry)
    if spec['phase'] in [2, 3]:
        raise Exception('boom')
    return {'phase': spec['phase']}


@kopf.index(*THINGS, labels={'case': 'users', 'listed': 'yes'})
async def users(name, **_):
    return {'name': name}


@kopf.on.event(*THINGS, labels={'case': 'users'}, when=lambda users, name, **_: 'name' in users and name in users['name'])
async def on_listed(name, logger, **_):
    tell(logger, 'listed', name=name)


@kopf.on.create(*THINGS, labels={'case': 'handlers'})
async def on_create(members, logger, **_):
    tell(logger, 'create', members=entries(members))


@kopf.index(*THINGS, labels={'case': 'handlers'})
async def members(spec, name, **_):
    return {spec['group']: name}


@kopf.timer(*THINGS, labels={'case': 'handlers', 'timer': 'yes'}, interval=0.5)
async def timer(members, memo, logger, **_):
    if count(memo) == 1:
        tell(logger, 'timer', members=entries(members))


@kopf.daemon(*THINGS, labels={'case': 'handlers', 'daemon': 'yes'})
async def daemon(members, stopped, logger, **_):
    tell(logger, 'daemon-begin', members=entries(members))
    while 'late' not in members and not await stopped.wait(0.1):
        pass
    tell(logger, 'daemon-end', members=entries(members))
    await stopped.wait()


@kopf.index(*THINGS, labels={'case': 'ready'})
async def ready(name, **_):
    return {'name': name}


@kopf.index(*THINGS, labels={'case': 'field'}, field='spec.size', value=5)
async def with_field(name, **_):
    return {'name': name}

import asyncio

import kopf
from notes import THINGS, count


@kopf.on.startup()
async def configure(settings, **_):
    settings.posting.loggers = True
    settings.posting.reporting_component = 'beside'
    settings.posting.reporting_instance = 'here'
    settings.posting.event_name_prefix = 'beside-'


@kopf.on.create(*THINGS, labels={'case': 'explicit'})
async def explicit(body, **_):
    kopf.event(body, type='SomeType', reason='SomeReason', message='Some message')
    kopf.info(body, reason='SomeReason', message='Some information')
    kopf.warn(body, reason='SomeReason', message='Some warning')
    try:
        raise RuntimeError('not today')
    except RuntimeError:
        kopf.exception(body, reason='SomeReason', message='Some exception:')
    kopf.info(body, reason='NoMessage')


@kopf.on.create(*THINGS, labels={'case': 'others'})
async def others(body, namespace, **_):
    def other(name):
        return {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': f'others.{name}', 'namespace': namespace}}
    kopf.info(other('one'), reason='One', message='about another object')
    kopf.event([other('two'), [other('three'), body]], type='Normal', reason='Several', message='about several objects')
    event = {'apiVersion': 'v1', 'kind': 'Event', 'metadata': {'name': 'others.event', 'namespace': namespace}}
    kopf.info(event, reason='Event', message='about an Event')


@kopf.on.create(*THINGS, labels={'case': 'lines'})
async def lines(logger, **_):
    logger.debug('a debug line')
    logger.info('an info line')
    logger.warning('a warning line')
    logger.error('an error line')


@kopf.on.create(*THINGS, labels={'case': 'long'})
async def long(body, logger, **_):
    kopf.info(body, reason='Long', message='é' * 700 + 'x' * 700)
    kopf.info(body, reason='Exact', message='y' * 1024)
    kopf.info(body, reason='Longer', message='a' * 511 + 'b' * 4 + 'c' * 510)


@kopf.on.create(*THINGS, labels={'case': 'errors'})
async def errors(retry, **_):
    if retry == 0:
        raise kopf.TemporaryError('not yet', delay=1)
    raise kopf.PermanentError('never')


@kopf.timer(*THINGS, labels={'case': 'tasks'}, interval=60)
async def timer(logger, **_):
    logger.info('of a timer')


@kopf.daemon(*THINGS, labels={'case': 'tasks'})
async def daemon(logger, stopped, **_):
    logger.info('of a daemon')
    await stopped.wait()


@kopf.on.event(*THINGS, labels={'case': 'raw'})
async def raw(body, type, logger, **_):
    if type == 'ADDED':
        logger.info('only in the log')
        kopf.info(body, reason='Raw', message='of an event')


@kopf.index(*THINGS, labels={'case': 'indexed'})
async def indexed(body, memo, logger, **_):
    logger.warning('only in the log')
    if count(memo) == 1:
        kopf.info(body, reason='Index', message='of an index')
    return 'indexed'

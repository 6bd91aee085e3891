import logging

import kopf
from notes import THINGS


@kopf.on.startup()
async def configure(settings, **_):
    settings.posting.loggers = True
    settings.posting.level = logging.WARNING


@kopf.on.create(*THINGS, labels={'case': 'level'})
async def level(body, logger, **_):
    logger.info('below the level')
    logger.warning('at the level')
    kopf.event(body, type='Normal', reason='Event', message='without a level')
    kopf.info(body, reason='Info', message='below the level')
    kopf.warn(body, reason='Warn', message='at the level')
    kopf.exception(body, reason='Exception', message='above the level')

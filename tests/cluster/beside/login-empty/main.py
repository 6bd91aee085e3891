import kopf
from notes import tell


@kopf.on.login()
async def nothing(logger, **_):
    tell(logger, 'login')


@kopf.on.cleanup()
async def tidy(logger, **_):
    tell(logger, 'cleanup')

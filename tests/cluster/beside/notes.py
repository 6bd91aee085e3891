# Shared by the operators of all groups: handlers tell their calls in the log, as one line with a name and JSON.
import json
import logging

import kopf

THINGS = ('beside.kopfd.test', 'things')
OTHERS = ('beside.kopfd.test', 'others')


def tell(logger, name, /, **arguments):
    logger.info('CALL %s %s', name, json.dumps(arguments, sort_keys=True))


# Messages of index handlers are logged only from this level on.
def warn(logger, name, /, **arguments):
    logger.warning('CALL %s %s', name, json.dumps(arguments, sort_keys=True))


# Counts the calls of an object, by a key.
def count(memo, key='calls'):
    memo[key] = memo.get(key, 0) + 1
    return memo[key]


# Waits until the finalizer is set: its request conflicts with other changes of the object at the same time.
async def await_finalizer(meta, stopped):
    while not meta.get('finalizers') and not await stopped.wait(0.1):
        pass


# The reasons and stages of a stop so far.
def reasons(stopped):
    reason = stopped.reason
    return sorted(flag.name for flag in kopf.DaemonStoppingReason if reason and flag & reason)


# Its call tells that the operator sees new objects.
@kopf.on.event(*THINGS, labels={'beacon': kopf.PRESENT})
async def beacon(logger, **_):
    tell(logger, 'beacon')

"""nextgen.py BOOTSTRAP PREFIX: librdkafka in groups of the consumer protocol (KIP-848), group.protocol=consumer.

Topics and groups begin with PREFIX. Prints one line for each step that held; fails with a traceback.
"""
import sys
import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

bootstrap, prefix = sys.argv[1:]
LIMIT = 60  # seconds that anything may take


def step(words):
    print(words, flush=True)


def create(topic, partitions):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(LIMIT)


def produce(topic, partitions, count):
    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(count):
        producer.produce(topic, b"v%d" % i, partition=i % partitions)
    assert producer.flush(LIMIT) == 0


def member(group, topic, protocol="consumer", **config):
    config = {key.replace("_", "."): value for key, value in config.items()}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": prefix + group, "group.protocol": protocol,
                         "auto.offset.reset": "earliest", "enable.auto.commit": False, **config})
    consumer.subscribe([topic])
    return consumer


def until(what, holds, members):
    """Polls members until holds() does; returns how many messages came."""
    count, end = 0, time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, "%s: %s" % (what, [m.assignment() for m in members])
        for m in members:
            message = m.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                count += 1
    return count


def have(members, *counts):
    return sorted(len(m.assignment()) for m in members) == sorted(counts)


topic = prefix + "a"
create(topic, 4)
produce(topic, 4, 40)

one = member("g", topic)
read = until("alone", lambda: have([one], 4), [one])
while read < 40:
    message = one.poll(LIMIT)
    assert message is not None and message.error() is None, message
    read += 1
one.commit(asynchronous=False)
step("alone")

two = member("g", topic, group_remote_assignor="range")
until("shared", lambda: have([one, two], 2, 2), [one, two])
parts = sorted(p.partition for m in (one, two) for p in m.assignment())
assert parts == [0, 1, 2, 3], parts
step("shared")

one.close()
until("handed over", lambda: have([two], 4), [two])
produce(topic, 4, 8)
fresh = []
end = time.monotonic() + LIMIT
while len(fresh) < 8:
    assert time.monotonic() < end, fresh
    message = two.poll(0.5)
    if message is not None:
        assert message.error() is None, message.error()
        fresh.append(message.offset())
assert min(fresh) == 10, fresh  # what was committed is not read again
two.commit(asynchronous=False)
two.close()
step("handed over")

three = member("x", "^" + prefix + "[ab]$")
until("expression", lambda: have([three], 4), [three])
three.close()
step("expression")

classic = member("m", topic, protocol="classic")
until("classic", lambda: have([classic], 4), [classic])
modern = member("m", topic)
until("migrated", lambda: have([classic, modern], 2, 2), [classic, modern])
classic.close()
until("migrated", lambda: have([modern], 4), [modern])
modern.close()
step("migrated")

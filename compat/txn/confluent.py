"""confluent.py BOOTSTRAP PREFIX: librdkafka's transactional producer and read_committed consumer.

Topics PREFIXin (1 partition) and PREFIXout (3) must exist. Prints one line for each step that held; fails with a traceback.
"""
import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

bootstrap, prefix = sys.argv[1:]
LIMIT = 60  # seconds that anything may take


def producer(name):
    p = Producer({"bootstrap.servers": bootstrap, "transactional.id": prefix + name})
    p.init_transactions(LIMIT)
    return p


def consumer(group, isolation="read_committed"):
    return Consumer({"bootstrap.servers": bootstrap, "group.id": prefix + group, "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "isolation.level": isolation, "enable.partition.eof": True})


def read(topic, partitions, isolation="read_committed"):
    c = consumer("reader", isolation)
    c.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    values, ended = [], set()
    while len(ended) < partitions:
        message = c.poll(LIMIT)
        assert message is not None, "nothing came"
        if message.error():
            ended.add(message.partition())
        else:
            values.append(message.value().decode())
    c.close()
    return sorted(values)


writer = producer("writer")
for i in range(3):
    writer.begin_transaction()
    for n in range(30):
        writer.produce(prefix + "out", partition=n % 3, value="%d-%d" % (i, n))
    if i == 1:
        writer.flush(LIMIT)
        writer.abort_transaction(LIMIT)
    else:
        writer.commit_transaction(LIMIT)
assert read(prefix + "out", 3) == sorted("%d-%d" % (i, n) for i in (0, 2) for n in range(30))
assert len(read(prefix + "out", 3, "read_uncommitted")) == 90
print("commit and abort", flush=True)

zombie = producer("fenced")
zombie.begin_transaction()
zombie.produce(prefix + "out", partition=0, value="of a zombie")
zombie.flush(LIMIT)
successor = producer("fenced")
successor.begin_transaction()
successor.produce(prefix + "out", partition=0, value="of the next")
successor.commit_transaction(LIMIT)
try:
    zombie.commit_transaction(LIMIT)
    raise AssertionError("the zombie could commit")
except KafkaException as e:
    assert e.args[0].fatal(), e
seen = read(prefix + "out", 3)
assert "of a zombie" not in seen and "of the next" in seen, seen
print("fencing", flush=True)

source = producer("source")
source.begin_transaction()
for n in range(50):
    source.produce(prefix + "in", partition=0, value="in-%d" % n)
source.commit_transaction(LIMIT)
transform = producer("transform")
for commit in (False, True):
    c = consumer("group")
    c.subscribe([prefix + "in"])
    transform.begin_transaction()
    count = 0
    while count < 50:
        message = c.poll(LIMIT)
        assert message is not None, "only %d of 50 records" % count
        if not message.error():
            transform.produce(prefix + "out", partition=1, value="out of " + message.value().decode())
            count += 1
    transform.send_offsets_to_transaction(c.position(c.assignment()), c.consumer_group_metadata(), LIMIT)
    if commit:
        transform.commit_transaction(LIMIT)
    else:
        transform.abort_transaction(LIMIT)
    c.close()
assert sum(v.startswith("out of ") for v in read(prefix + "out", 3)) == 50
c = consumer("group")
assert c.committed([TopicPartition(prefix + "in", 0)], LIMIT)[0].offset >= 50
c.close()
print("consume, transform, produce", flush=True)

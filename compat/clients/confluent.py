"""confluent.py BOOTSTRAP PREFIX: librdkafka through confluent-kafka: admin, every codec, groups, offsets, time, headers.

Topics and groups begin with PREFIX. Prints one line for each step that held; fails with a traceback.
"""
import sys
import threading

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec

bootstrap, prefix = sys.argv[1:]
LIMIT = 30  # seconds that anything may take


def step(words):
    print(words, flush=True)


def create(admin, topic, partitions=1, **config):
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(LIMIT)


def produce(topic, count, **config):
    failed, offsets = [], []

    def delivered(error, message):
        (failed if error else offsets).append(error or message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **config})
    for i in range(count):
        producer.produce(topic, key=b"k%d" % i, value=b"v%d" % i * 20, headers=[("n", b"%d" % i)], on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(LIMIT) == 0, "not all delivered"
    assert not failed, failed[:3]
    return offsets


def consume(consumer, count):
    messages = []
    while len(messages) < count:
        batch = consumer.consume(count - len(messages), LIMIT)
        assert batch, "only %d of %d messages" % (len(messages), count)
        for message in batch:
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def reader(group, **config):
    return Consumer({"bootstrap.servers": bootstrap, "group.id": prefix + group, "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, **config})


admin = AdminClient({"bootstrap.servers": bootstrap})
cluster = admin.describe_cluster().result(LIMIT)
assert cluster.cluster_id and len(cluster.nodes) == 1, cluster
step("cluster described")

for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    topic = prefix + codec
    create(admin, topic)
    produce(topic, 500, **{"compression.type": codec})
    consumer = reader("codec")
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consume(consumer, 500)
    assert [m.offset() for m in messages] == list(range(500))
    assert all(m.value() == b"v%d" % i * 20 and m.key() == b"k%d" % i and m.headers() == [("n", b"%d" % i)]
               for i, m in enumerate(messages))
    consumer.close()
    step("codec " + codec)

topic = prefix + "idempotent"
create(admin, topic)
assert produce(topic, 2000, **{"enable.idempotence": True, "batch.num.messages": 10}) == list(range(2000))
step("idempotent")

for acks in ("0", "1", "all"):
    topic = prefix + "acks" + acks
    create(admin, topic)
    produce(topic, 100, acks=acks)
    consumer = reader("acks")
    consumer.assign([TopicPartition(topic, 0, 0)])
    consume(consumer, 100)
    consumer.close()
step("acks")

# Two members share a group's partitions, one leaves, the other takes over; committed offsets last.
topic = prefix + "group"
create(admin, topic, 4)
produce(topic, 400)
seen, lock, enough = set(), threading.Lock(), threading.Event()


def member(stop):
    consumer = reader("group", **{"session.timeout.ms": 6000})
    consumer.subscribe([topic])
    while not stop.is_set():
        message = consumer.poll(0.2)
        if message is None:
            continue
        assert message.error() is None, message.error()
        with lock:
            seen.add((message.partition(), message.offset()))
            if len(seen) == 400:
                enough.set()
        consumer.commit(message, asynchronous=False)
    consumer.close()


stops = [threading.Event(), threading.Event()]
members = [threading.Thread(target=member, args=(stop,)) for stop in stops]
for thread in members:
    thread.start()
assert enough.wait(LIMIT), "%d of 400 seen" % len(seen)
for stop, thread in zip(stops, members):
    stop.set()
    thread.join(LIMIT)
consumer = reader("group")
committed = consumer.committed([TopicPartition(topic, p) for p in range(4)], LIMIT)
assert sum(tp.offset for tp in committed) == 400, committed
consumer.close()
step("group")

topic = prefix + "time"
create(admin, topic)
producer = Producer({"bootstrap.servers": bootstrap})
for timestamp in (1000, 2000, 3000):
    producer.produce(topic, b"v", timestamp=timestamp)
assert producer.flush(LIMIT) == 0
consumer = reader("time")
found = consumer.offsets_for_times([TopicPartition(topic, 0, 1500)], LIMIT)
assert found[0].offset == 1, found
assert consumer.get_watermark_offsets(TopicPartition(topic, 0), LIMIT) == (0, 3)
consumer.close()
latest = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})[TopicPartition(topic, 0)].result(LIMIT)
assert latest.offset == 3, latest
step("time")

admin.create_partitions([NewPartitions(topic, 3)])[topic].result(LIMIT)
resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
configs = admin.describe_configs([resource])[resource].result(LIMIT)
assert configs["retention.ms"].value == "604800000", configs["retention.ms"]
assert any(g.group_id == prefix + "group" for g in admin.list_consumer_groups().result(LIMIT).valid)
description = admin.describe_consumer_groups([prefix + "group"])[prefix + "group"].result(LIMIT)
assert not description.members, description.members
admin.delete_consumer_groups([prefix + "group"])[prefix + "group"].result(LIMIT)
admin.delete_topics([topic])[topic].result(LIMIT)
step("admin")

try:
    create(admin, "not a name")
    raise AssertionError("a bad name was accepted")
except Exception as error:  # confluent_kafka.KafkaException
    assert error.args[0].code() == KafkaError.TOPIC_EXCEPTION, error
step("errors")

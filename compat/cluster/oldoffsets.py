"""oldoffsets.py BOOTSTRAP TOPIC GROUP: kafka-python as a client of Kafka 0.8.1, which keeps offsets in ZooKeeper.

Commits 7 to partition 0, prints what is committed of partition 0, then of partition 1.
"""
import sys

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

bootstrap, topic, group = sys.argv[1:]
consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, api_version=(0, 8, 1), enable_auto_commit=False)
partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
consumer.assign(partitions)
consumer.commit({partitions[0]: OffsetAndMetadata(7, "", -1)})
for partition in partitions:
    print("committed", consumer.committed(partition), flush=True)
consumer.close()

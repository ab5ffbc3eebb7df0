import java.time.Duration;
import java.util.*;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Assignors BOOTSTRAP TOPIC GROUP [modern]: two members of a classic group, for each assignor that Kafka's consumer has: one joins, another
 * comes, the first leaves; then two static members whose processes come back. With "modern" then the same in groups of the consumer
 * protocol, and from one kind to the other and back. Prints a line for each step that held; ends with an exception otherwise. The topic has
 * six partitions and no records.
 */
public class Assignors {
    static final long LIMIT_MS = 90_000;
    static final int PARTITIONS = 6, RECORDS = 60;
    static String bootstrap, topic;

    /** A member that reads, commits what it has read before it gives partitions up, and counts what it is told. */
    static class Member implements ConsumerRebalanceListener, AutoCloseable {
        final KafkaConsumer<String, String> consumer;
        final Map<String, Integer> read;
        final Set<TopicPartition> owned = new HashSet<>();
        int givenUp;

        Member(String group, String assignor, String instance, Map<String, Integer> read) {
            this.read = read;
            Properties p = new Properties();
            p.put("bootstrap.servers", bootstrap);
            p.put("group.id", group);
            p.put("enable.auto.commit", "false");
            p.put("auto.offset.reset", "earliest");
            if (assignor.endsWith("Assignor")) {
                p.put("session.timeout.ms", "60000");
                p.put("heartbeat.interval.ms", "500");
                p.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
            } else {
                p.put("group.protocol", "consumer");
                p.put("group.remote.assignor", assignor);
            }
            p.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            p.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            if (instance != null)
                p.put("group.instance.id", instance);
            consumer = new KafkaConsumer<>(p);
            consumer.subscribe(Collections.singletonList(topic), this);
        }

        void poll() {
            for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100)))
                read.merge(r.partition() + "-" + r.offset(), 1, Integer::sum);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            owned.addAll(added);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            consumer.commitSync();
            owned.removeAll(revoked);
            givenUp += revoked.size();
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            owned.removeAll(lost);
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    static void until(String what, BooleanSupplier holds, Member... polled) {
        for (long end = System.currentTimeMillis() + LIMIT_MS; !holds.getAsBoolean(); ) {
            if (System.currentTimeMillis() > end) {
                StringBuilder seen = new StringBuilder();
                for (Member m : polled)
                    seen.append(' ').append(m.owned);
                throw new IllegalStateException(what + " does not come about:" + seen);
            }
            for (Member m : polled)
                m.poll();
        }
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        produce();
        for (String assignor : new String[] {"RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"})
            shares(args[2] + assignor, assignor);
        comesBack(args[2] + "static", "RangeAssignor");
        if (args.length < 4)
            return;
        for (String assignor : new String[] {"uniform", "range"})
            shares(args[2] + assignor, assignor);
        comesBack(args[2] + "modern-static", "uniform");
        migrates(args[2] + "migrates");
    }

    static void produce() throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p)) {
            for (int i = 0; i < RECORDS; i++)
                producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, "value " + i)).get();
        }
    }

    /** Eager members give everything up when another comes, cooperative ones what moves; each record is read once. */
    static void shares(String group, String assignor) {
        Map<String, Integer> read = new HashMap<>();
        Member two;
        try (Member one = new Member(group, assignor, null, read)) {
            until("a member alone", () -> one.owned.size() == PARTITIONS && read.size() == RECORDS, one);
            two = new Member(group, assignor, null, read);
            until("two that share", () -> one.owned.size() == PARTITIONS / 2 && two.owned.size() == PARTITIONS / 2, one, two);
            if (!Collections.disjoint(one.owned, two.owned))
                throw new IllegalStateException("both own " + one.owned + " and " + two.owned);
            System.out.println(assignor + ": two share, one gave up " + (one.givenUp == PARTITIONS / 2 ? "half" : one.givenUp % PARTITIONS == 0 ? "all" : one.givenUp));
        }
        try (two) {
            until("the one that is left", () -> two.owned.size() == PARTITIONS, two);
            for (int i = 0; i < 5; i++)
                two.poll();
        }
        if (read.size() != RECORDS || Collections.max(read.values()) != 1)
            throw new IllegalStateException("read were " + read);
        System.out.println(assignor + ": the other has all, each record was read once");
    }

    /** A static member that comes back has what it had, and the others hear nothing of it; who is still there as it was is fenced. */
    static void comesBack(String group, String assignor) {
        Map<String, Integer> read = new HashMap<>();
        try (Member one = new Member(group, assignor, "one", read)) {
            Member two = new Member(group, assignor, "two", read);
            until("two that share", () -> one.owned.size() == PARTITIONS / 2 && two.owned.size() == PARTITIONS / 2, one, two);
            Set<TopicPartition> had = new HashSet<>(two.owned);
            two.close();
            int before = one.givenUp;
            try (Member again = new Member(group, assignor, "two", read)) {
                until("a static member that comes back", () -> again.owned.size() == PARTITIONS / 2, one, again);
                if (!again.owned.equals(had) || one.givenUp != before)
                    throw new IllegalStateException("it had " + had + ", has " + again.owned + ", and the other gave up " + (one.givenUp - before));
                System.out.println("static, " + assignor + ": it has what it had");
                try (Member twin = new Member(group, assignor, "two", read)) {
                    if (assignor.endsWith("Assignor"))
                        until("a twin", () -> twin.owned.equals(had), one, twin);
                    refused(assignor.endsWith("Assignor") ? again : twin);
                }
            }
        }
    }

    /** Of two with one name a classic group fences the older, and one of the consumer protocol refuses the newer. */
    static void refused(Member member) {
        try {
            until("a member that is refused", () -> false, member);
        } catch (KafkaException e) {
            System.out.println("static: one of two is refused by " + e.getClass().getSimpleName());
        }
    }

    /** A classic member is replaced by one of the consumer protocol, which is replaced by a classic one; each record is read once. */
    static void migrates(String group) {
        Map<String, Integer> read = new HashMap<>();
        Member before = new Member(group, "CooperativeStickyAssignor", null, read);
        String[] next = {"uniform", "CooperativeStickyAssignor"};
        Member first = before;
        until("a member alone", () -> first.owned.size() == PARTITIONS && read.size() == RECORDS, first);
        for (String assignor : next) {
            Member after = new Member(group, assignor, null, read);
            Member old = before;
            until("two of both kinds", () -> old.owned.size() == PARTITIONS / 2 && after.owned.size() == PARTITIONS / 2, old, after);
            old.close();
            until("the other kind alone", () -> after.owned.size() == PARTITIONS, after);
            System.out.println("from one kind to the other: " + assignor);
            before = after;
        }
        before.close();
        if (Collections.max(read.values()) != 1)
            throw new IllegalStateException("read were " + read);
    }
}

import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * OldProducer BOOTSTRAP TOPIC CODEC: writes ten records with a Java client of any version and prints the offset of each.
 */
public class OldProducer {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("acks", "all");
        p.put("compression.type", args[2]);
        p.put("linger.ms", "50");
        p.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        p.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p)) {
            Future<RecordMetadata> last = null;
            for (int i = 0; i < 10; i++) {
                last = producer.send(new ProducerRecord<>(args[1], "key " + i, "value " + i));
            }
            System.out.println("produced to " + last.get().offset());
        }
    }
}

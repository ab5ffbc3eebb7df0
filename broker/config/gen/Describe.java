import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;
// Describe ADDRESS brokers|topics NAME: every row of DescribeConfigs as JSON lines, with synonyms and docs.
public class Describe {
  static String q(String s) { if (s==null) return "null"; StringBuilder b=new StringBuilder("\""); for (char c: s.toCharArray()) { switch(c){case '"': b.append("\\\"");break; case '\\': b.append("\\\\");break; case '\n': b.append("\\n");break; case '\t': b.append("\\t");break; case '\r': b.append("\\r"); break; default: if (c<32||c>126) b.append(String.format("\\u%04x",(int)c)); else b.append(c);} } return b.append('"').toString(); }
  public static void main(String[] a) throws Exception {
    ConfigResource.Type t = a[1].equals("brokers") ? ConfigResource.Type.BROKER : a[1].equals("topics") ? ConfigResource.Type.TOPIC : ConfigResource.Type.valueOf(a[1]);
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", a[0]))) {
      ConfigResource r = new ConfigResource(t, a.length > 2 ? a[2] : "");
      Config c = admin.describeConfigs(List.of(r), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(a.length<4)).all().get().get(r);
      for (ConfigEntry e : c.entries().stream().sorted(Comparator.comparing(ConfigEntry::name)).toList()) {
        System.out.println("{\"name\":"+q(e.name())+",\"value\":"+q(e.value())+",\"source\":"+q(e.source().toString())+",\"sensitive\":"+e.isSensitive()+",\"readOnly\":"+e.isReadOnly()+",\"type\":"+q(e.type().toString())
          +",\"synonyms\":["+e.synonyms().stream().map(s->"{\"name\":"+q(s.name())+",\"value\":"+q(s.value())+",\"source\":"+q(s.source().toString())+"}").collect(Collectors.joining(","))+"]"
          +(a.length<4?",\"doc\":"+q(e.documentation()):"")+"}");
      }
    }
  }
}

import java.lang.reflect.*;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
public class Dump {
  static Object call(String c, String m) throws Exception {
    Class<?> k = Class.forName(c);
    try { Method x = k.getDeclaredMethod(m); x.setAccessible(true); return x.invoke(null);} catch (NoSuchMethodException e) {
      Field f = k.getDeclaredField(m); f.setAccessible(true); return f.get(null);
    }
  }
  static String q(String s) { if (s==null) return "null"; StringBuilder b=new StringBuilder("\""); for (char c: s.toCharArray()) { switch(c){case '"': b.append("\\\"");break; case '\\': b.append("\\\\");break; case '\n': b.append("\\n");break; case '\t': b.append("\\t");break; case '\r': b.append("\\r"); break; default: if (c<32||c>126) b.append(String.format("\\u%04x",(int)c)); else b.append(c);} } return b.append('"').toString(); }
  static void def(String scope, ConfigDef d, Map<String,String> modes) {
    for (ConfigDef.ConfigKey k : new TreeMap<>(d.configKeys()).values()) {
      String dv = k.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? null : ConfigDef.convertToString(k.defaultValue, k.type);
      System.out.println("{\"scope\":"+q(scope)+",\"name\":"+q(k.name)+",\"type\":"+q(k.type.toString())+",\"nodefault\":"+(k.defaultValue==ConfigDef.NO_DEFAULT_VALUE)+",\"default\":"+q(dv)+",\"validator\":"+q(k.validator==null?null:k.validator.toString())+",\"vclass\":"+q(k.validator==null?null:k.validator.getClass().getName())+",\"emptyList\":"+emptyAllowed(k.validator)+",\"importance\":"+q(k.importance.toString())+",\"internal\":"+k.internalConfig+",\"mode\":"+q(modes.get(k.name))+",\"doc\":"+q(k.documentation)+"}");
    }
  }
  static String emptyAllowed(Object v) { if (v instanceof ConfigDef.ValidList) try { Field f = v.getClass().getDeclaredField("isEmptyAllowed"); f.setAccessible(true); return f.get(v).toString(); } catch (Exception e) { } return "null"; }
  static ConfigDef try_(String... cs) { for (String c: cs) { String[] p=c.split("#"); try { Class.forName(p[0]); } catch (ClassNotFoundException n) { continue; } try { Object o=call(p[0],p[1]); if (o!=null) return (ConfigDef)o; } catch (Throwable t) { System.err.println(c+": "+t+" "+t.getCause()); } } return null; }
  @SuppressWarnings("unchecked")
  public static void main(String[] a) throws Exception {
    Map<String,String> modes;
    try { modes = (Map<String,String>) call("org.apache.kafka.server.config.DynamicBrokerConfig","dynamicConfigUpdateModes"); } catch (ClassNotFoundException u) {
      Class<?> k = Class.forName("kafka.server.DynamicBrokerConfig$"); Object m0 = k.getField("MODULE$").get(null);
      modes = (Map<String,String>) k.getMethod("dynamicConfigUpdateModes").invoke(m0); }
    ConfigDef b = try_("kafka.server.KafkaConfig#configDef","org.apache.kafka.server.config.AbstractKafkaConfig#CONFIG_DEF","kafka.server.KafkaConfig#CONFIG_DEF");
    def("broker", b, modes);
    ConfigDef t = try_("org.apache.kafka.storage.internals.log.LogConfig#configDefCopy","org.apache.kafka.storage.internals.log.LogConfig#CONFIG");
    def("topic", t, Map.of());
    ConfigDef g = try_("kafka.coordinator.group.GroupConfig#configDef","org.apache.kafka.coordinator.group.GroupConfig#configDef","org.apache.kafka.coordinator.group.GroupConfig#CONFIG_DEF","org.apache.kafka.coordinator.group.GroupConfig#CONFIG");
    if (g!=null) def("group", g, Map.of());
    ConfigDef m = try_("org.apache.kafka.server.metrics.ClientMetricsConfigs#configDef","org.apache.kafka.server.metrics.ClientMetricsConfigs#CONFIG");
    if (m!=null) def("client-metrics", m, Map.of());
    for (String c : new String[]{"brokerQuotaConfigs","scramMechanisms","userAndClientQuotaConfigs","ipConfigs"}) {
      try { ConfigDef d=(ConfigDef)call("org.apache.kafka.server.config.QuotaConfig".concat(""),c); if(d!=null) def("quota-"+c,d,Map.of()); } catch (Throwable x) { try { ConfigDef d=(ConfigDef)call("org.apache.kafka.server.config.QuotaConfigs",c); if(d!=null) def("quota-"+c,d,Map.of()); } catch (Throwable y) { System.err.println(y);} }
    }
    Map<String,?> syn = (Map<String,?>) call("org.apache.kafka.server.config.ServerTopicConfigSynonyms","ALL_TOPIC_CONFIG_SYNONYMS");
    for (var e : new TreeMap<String,Object>(syn).entrySet()) {
      StringBuilder s=new StringBuilder();
      for (Object o : (List<?>)e.getValue()) { if (s.length()>0) s.append(","); s.append(o.getClass().getMethod("name").invoke(o)); }
      System.out.println("{\"synonym\":"+q(e.getKey())+",\"of\":"+q(s.toString())+"}");
    }
  }
}

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Runs Kafka's command-line tools, many of them one after the other or at the same time, in one JVM: starting a JVM for
 * each costs more than the tool itself.
 *
 * <p>Requests arrive on standard input, one after the other: int call, int number of strings, each string as int length
 * and UTF-8 bytes (the first is the main class, the others its arguments), int length and bytes of the tool's standard
 * input. Answers leave on standard output: int call, byte kind, int length, bytes; kind 1 is a piece of the tool's
 * standard output, 2 of its standard error, 3 its exit status as text, after which nothing of this call follows.
 *
 * <p>A tool's output is told from another's by the thread that writes it: threads inherit the call of their creator.
 */
public final class ToolRunner {
    private static final InheritableThreadLocal<Call> CURRENT = new InheritableThreadLocal<>();
    private static final ReentrantLock OUT_LOCK = new ReentrantLock();
    private static DataOutputStream out;

    /** Thrown in place of ending the JVM. */
    private static final class Ended extends Error {
        final int status;

        Ended(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
        }
    }

    private static final class Call {
        final int id;
        final InputStream in;
        final List<Runnable> hooks = new ArrayList<>();
        volatile Integer status;

        Call(int id, byte[] in) {
            this.id = id;
            this.in = new ByteArrayInputStream(in);
        }
    }

    /** Sends what a tool writes as a piece of its call. */
    private static final class Pieces extends OutputStream {
        private final int kind;

        Pieces(int kind) {
            this.kind = kind;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] b, int off, int len) {
            Call call = CURRENT.get();
            if (call != null) {
                send(call.id, kind, b, off, len);
            }
        }
    }

    /** The standard input of the call whose thread reads it. */
    private static final class Input extends InputStream {
        private static InputStream of() {
            Call call = CURRENT.get();
            return call == null ? InputStream.nullInputStream() : call.in;
        }

        @Override
        public int read() throws IOException {
            return of().read();
        }

        @Override
        public int read(byte[] b, int off, int len) throws IOException {
            return of().read(b, off, len);
        }
    }

    private static void send(int id, int kind, byte[] b, int off, int len) {
        OUT_LOCK.lock();
        try {
            out.writeInt(id);
            out.writeByte(kind);
            out.writeInt(len);
            out.write(b, off, len);
            out.flush();
        } catch (IOException e) {
            Runtime.getRuntime().halt(1);
        } finally {
            OUT_LOCK.unlock();
        }
    }

    private static byte[] bytes(DataInputStream in) throws IOException {
        byte[] b = new byte[in.readInt()];
        in.readFully(b);
        return b;
    }

    /**
     * Has Kafka's tools call exit in place of ending the JVM, and leave their shutdown hooks with the call. The class that
     * they ask has another package in 4.4.
     */
    private static void takeExit() throws ReflectiveOperationException {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException e) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object ours = Proxy.newProxyInstance(procedure.getClassLoader(), new Class<?>[] {procedure}, (proxy, method, a) -> {
            exit((Integer) a[0], (String) a[1]);
            return null;
        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, ours);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, ours);

        Class<?> adder = Class.forName(exit.getName() + "$ShutdownHookAdder");
        Object adds = Proxy.newProxyInstance(adder.getClassLoader(), new Class<?>[] {adder}, (proxy, method, a) -> {
            Call call = CURRENT.get();
            if (call != null) {
                call.hooks.add((Runnable) a[1]);
            }
            return null;
        });
        exit.getMethod("setShutdownHookAdder", adder).invoke(null, adds);
    }

    public static void main(String[] args) throws IOException, ReflectiveOperationException {
        DataInputStream in = new DataInputStream(System.in);
        out = new DataOutputStream(new java.io.BufferedOutputStream(System.out, 1 << 16));
        // Before any other class takes hold of the standard streams.
        System.setOut(new PrintStream(new Pieces(1), false));
        System.setErr(new PrintStream(new Pieces(2), false));
        System.setIn(new Input());
        takeExit();
        while (true) {
            int id;
            try {
                id = in.readInt();
            } catch (EOFException e) {
                Runtime.getRuntime().halt(0);
                return;
            }
            String[] words = new String[in.readInt()];
            for (int i = 0; i < words.length; i++) {
                words[i] = new String(bytes(in), "UTF-8");
            }
            Call call = new Call(id, bytes(in));
            new Thread(() -> run(call, words), "tool-" + id).start();
        }
    }

    private static void exit(int status, String message) {
        Call call = CURRENT.get();
        if (call != null && call.status == null) {
            call.status = status;
            if (message != null) {
                System.err.println(message);
            }
        }
        throw new Ended(status);
    }

    private static void run(Call call, String[] words) {
        CURRENT.set(call);
        int status = 0;
        try {
            String[] arguments = java.util.Arrays.copyOfRange(words, 1, words.length);
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Ended)) {
                e.getCause().printStackTrace();
                status = 1;
            }
        } catch (Throwable e) {
            e.printStackTrace();
            status = 1;
        }
        if (call.status != null) {
            status = call.status;
        }
        for (Runnable hook : call.hooks) {
            try {
                hook.run();
            } catch (Throwable e) {
                e.printStackTrace();
            }
        }
        System.out.flush();
        System.err.flush();
        byte[] text = Integer.toString(status).getBytes();
        send(call.id, 3, text, 0, text.length);
    }
}

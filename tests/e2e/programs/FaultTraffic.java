// A JVM uses SIGSEGV itself: a null reference is touched, and the signal becomes an exception. Here
// one thread does so all the time, while another has RDMA traffic whose memory is taken away.
//
//   java FaultTraffic LIBRARY ROUNDS
public final class FaultTraffic {
    private int field;

    private static native int thefts(int rounds);

    private static int read(FaultTraffic of) {
        return of.field;
    }

    public static void main(String[] arguments) throws InterruptedException {
        System.load(arguments[0]);
        final int[] seen = new int[1];
        final Thread traffic = new Thread(() -> seen[0] = thefts(Integer.parseInt(arguments[1])));
        traffic.start();
        int exceptions = 0;
        int others = 0;
        while (traffic.isAlive() || exceptions < 100_000) {
            try {
                others += read(null);
            } catch (NullPointerException e) {
                ++exceptions;
            }
        }
        traffic.join();
        if (seen[0] == 0 || others != 0) System.exit(1);
        System.out.println(seen[0] + " thefts under traffic beside " + exceptions + " exceptions");
    }
}

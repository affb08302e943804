import java.net.NetworkInterface;
import java.util.Collections;
import java.util.HexFormat;

/** Prints the interfaces, as most servers in Java look at them when they start. */
class Interfaces {
    public static void main(String[] words) throws Exception {
        for (var each : Collections.list(NetworkInterface.getNetworkInterfaces())) {
            byte[] mac = each.getHardwareAddress();
            System.out.print(each.getName() + " " + each.isLoopback() + " " + each.isUp() + " ");
            System.out.print(mac == null ? "none" : HexFormat.ofDelimiter(":").formatHex(mac));
            System.out.println(" " + each.getMTU());
            for (var address : Collections.list(each.getInetAddresses())) {
                System.out.println(each.getName() + " " + address.getHostAddress().split("%")[0]);
            }
        }
    }
}

package quire;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;

/**
 * The documents of YoctoDB's published micro-benchmark: id from 0, f = md5(id % 10) in hex; and a second field to
 * intersect with, g = md5(id % 7).
 */
record Documents(int count) {
    static final int F_VALUES = 10;
    static final int G_VALUES = 7;

    /** The values of a field, by the remainder that they are made from. */
    static String[] values(int modulus) throws Exception {
        String[] values = new String[modulus];
        for (int i = 0; i < modulus; i++) {
            byte[] text = Integer.toString(i).getBytes(StandardCharsets.UTF_8);
            values[i] = HexFormat.of().formatHex(MessageDigest.getInstance("MD5").digest(text));
        }
        return values;
    }
}

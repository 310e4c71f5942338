use talmox_talos_config::cidata;

use super::*;

const FILES: [(&str, &[u8]); 3] =
    [("meta-data", b"instance-id: 1\n"), ("network-config", b""), ("user-data", &[7; 70_001])];

fn expected() -> BTreeMap<String, Vec<u8>> {
    FILES.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect()
}

#[test]
fn volumes_written_by_talmox_are_read() {
    let scratch = Scratch::new();
    let image = cidata::volume(&FILES).unwrap();
    let file = scratch.file("a.iso", image.as_bytes());
    assert_eq!(cidata_files(&file), Some(expected()));
    // The image is also tested as qcow2, and on a disk that is larger than the volume.
    let mut bytes = image.as_bytes().to_vec();
    bytes.resize(4 << 20, 0);
    assert_eq!(cidata_files(&scratch.file("b.raw", &bytes)), Some(expected()));
    let disk = sparse::SparseDisk { size: 4 << 20, ranges: vec![(0, image.as_bytes().to_vec())] };
    assert_eq!(cidata_files(&scratch.file("c.qcow2", &disk.to_qcow2(16))), Some(expected()));
    let other = cidata::labelled("config-2", &FILES).unwrap();
    assert_eq!(cidata_files(&scratch.file("d.iso", other.as_bytes())), None);
}

#[test]
fn volumes_of_other_programs_are_read() {
    let scratch = Scratch::new();
    let folder = scratch.path("files");
    std::fs::create_dir(&folder).unwrap();
    for (name, content) in FILES {
        std::fs::write(folder.join(name), content).unwrap();
    }
    // The flags select Joliet and Rock Ridge together, each of them alone, and plain ISO names of any length.
    for flags in [&["-J", "-r"][..], &["-J"], &["-r"], &["-U"]] {
        for label in ["cidata", "CIDATA"] {
            let iso = scratch.path("a.iso");
            let mut args = vec!["-quiet", "-V", label, "-o", text(&iso)];
            args.extend(flags);
            args.push(text(&folder));
            if run("genisoimage", &args).is_some() {
                assert_eq!(cidata_files(&iso), Some(expected()), "{flags:?}");
            }
        }
    }
    for bits in ["12", "16", "32"] {
        let image = scratch.file("a.img", &vec![0; 64 << 20]);
        if run("mkfs.vfat", &["-F", bits, "-n", "CIDATA", text(&image)]).is_none() {
            continue;
        }
        let mut done = Some(());
        for (name, _) in FILES {
            let file = folder.join(name);
            done = done.and(run("mcopy", &["-oi", text(&image), text(&file), "::"]));
        }
        if done.is_some() {
            assert_eq!(cidata_files(&image), Some(expected()), "FAT{bits}");
        }
    }
}
